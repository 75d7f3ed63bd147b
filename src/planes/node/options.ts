/** The options of the reverse proxy that do not come from the configuration, and defaults for those that do. */
import type { Limits, ProxyOptions, Timeouts } from "../../config/options/proxy.js";
import type { ConnectionAdmission } from "../../slots/admission.js";
import type { Admission } from "./http/admission.js";

/** A pino logger. Fields must not contain raw control characters. */
export interface ProxyLog {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
}

export interface Deciders {
  admission: Admission;
  /** Without it upgrades get 501. */
  upgrades?: ConnectionAdmission;
}

export interface CreateProxyOptions extends ProxyOptions, Deciders {
  log: ProxyLog;
  /** The name in Via. Default `tollgate`. */
  via?: string;
}

export const defaultLimits: Limits = { headerBytes: 16_384, headerCount: 100, bodyBytes: Number.MAX_SAFE_INTEGER };

export const defaultTimeouts: Timeouts = {
  connectMs: 5_000,
  responseMs: 60_000,
  bodyIdleMs: 30_000,
  headersMs: 15_000,
  requestMs: 0,
  keepAliveMs: 65_000,
  lingerMs: 2_000,
};

/** State that all exchanges and tunnels of a proxy share. */
export interface Shared {
  readonly log: ProxyLog;
  readonly via: string;
  /** Time for timeouts, advanced by the proxy's timer. It stands still while the process is paused, so nothing times out then. */
  clockMs: number;
  draining: boolean;
}
