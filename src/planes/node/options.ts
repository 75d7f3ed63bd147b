/** Everything a reverse proxy can be told, with what holds where nothing is said. */

import type { ConnectionAdmission } from "../../slots/admission.js";
import type { Admission, Verdict } from "./http/admission.js";

export interface Route {
  /** A prefix. One that ends in a slash covers what begins with it; any other covers whole segments: /a, /a/b, not /ab. */
  path: string;
  /** Without a port, in any case. Routes with a host are looked at before those without. */
  host?: string;
  /** A key of `upstreams`. */
  upstream: string;
  /** By which it is known to whoever keeps the slots. Default: host and path. */
  name?: string;
  /** Connections may be upgraded here, each with a slot. Without it they get 501. */
  connections?: RouteConnections;
}

export interface RouteConnections {
  /** What a connection may be upgraded to, in any case. Default `websocket`. HTTP/2 is never among it. */
  protocols?: string[];
  /** Without a byte in either direction; 0, the default: for as long as it lasts. */
  idleMs?: number;
  /** After so long without a byte the other end's system is asked whether it is there (TCP keep-alive). 0: never. Default 30,000. */
  pingMs?: number;
}

export interface UpstreamOptions {
  /** `host:port`, or an origin with `http:` or `https:`. Without it, the proxy is told by `setTargets`; until then there are none. */
  targets?: string[];
  /** Connections to one target; requests beyond wait in line. Default 512. */
  connections?: number;
  /** Hand the client's Host on (default), or name the target. */
  passHost?: boolean;
  /** What failed requests say of a target. */
  passive?: { failures?: number; downMs?: number };
  /** Asking targets how they are. Without a path nobody is asked. */
  active?: {
    path: string;
    intervalMs?: number;
    timeoutMs?: number;
    /** So many good answers in a row end a bad time, so many bad ones begin it. */
    healthyAfter?: number;
    unhealthyAfter?: number;
  };
}

/** Above them a request is refused: 431 for headers, 413 for a body. */
export interface Limits {
  headerBytes: number;
  headerCount: number;
  bodyBytes: number;
}

export interface Timeouts {
  connectMs: number;
  /** From the request's last byte to the response's head. */
  responseMs: number;
  /** Without a byte moving, in either direction and on either side. */
  bodyIdleMs: number;
  /** For a client to send the whole head. */
  headersMs: number;
  /** For a client to send the whole request, body included. 0: as long as it takes, while bytes keep coming. */
  requestMs: number;
  /** Between two requests of a client. */
  keepAliveMs: number;
  /** How long a client may go on sending what nobody will read, so that it sees the answer before the connection ends. */
  lingerMs: number;
}

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

/** What can be changed while the proxy runs. */
export interface ProxySettings {
  routes: Route[];
  upstreams: Record<string, UpstreamOptions>;
  limits?: Partial<Limits>;
  timeouts?: Partial<Timeouts>;
  /** Networks (`10.0.0.0/8`) whose X-Forwarded-* and Forwarded are believed. Default none. */
  trustedHops?: readonly string[];
}

/** Who decides. */
export interface Deciders<V extends Verdict = Verdict> {
  admission: Admission<V>;
  /** Without it no connection is upgraded: 501. */
  upgrades?: Upgrades<V>;
}

export interface ProxyOptions<V extends Verdict = Verdict> extends ProxySettings, Deciders<V> {
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
