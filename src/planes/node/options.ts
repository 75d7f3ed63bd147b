/** Everything a reverse proxy can be told, with what holds where nothing is said. */

import type { Limits, ProxyOptions, Timeouts } from "../../config/options/proxy-options.js";
import type { ConnectionAdmission } from "../../slots/admission.js";
import type { Admission, Verdict } from "./http/admission.js";

/** What pino offers; nothing in it is a raw control character. */
export interface ProxyLog {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
}

/** Who keeps the slots of upgraded connections. */
export interface Upgrades<V extends Verdict = Verdict> {
  admission: ConnectionAdmission;
  /** The app that a verdict was given for. */
  appOf(verdict: V): string;
}

/** Who decides. */
export interface Deciders<V extends Verdict = Verdict> {
  admission: Admission<V>;
  /** Without it no connection is upgraded: 501. */
  upgrades?: Upgrades<V>;
}

export interface CreateProxyOptions<V extends Verdict = Verdict> extends ProxyOptions, Deciders<V> {
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
