/** The options of the Node proxy that come from the configuration and may change while it runs. */

export interface ProxyOptions {
  routes: Route[];
  upstreams: Record<string, UpstreamOptions>;
  limits?: Partial<Limits>;
  timeouts?: Partial<Timeouts>;
  /** Networks (`10.0.0.0/8`) whose X-Forwarded-* and Forwarded headers are trusted. Default none. */
  trustedHops?: readonly string[];
}

export interface Route {
  /** A prefix. With a trailing slash it matches everything that begins with it, otherwise whole segments: /a, /a/b, not /ab. */
  path: string;
  /** Without a port, case-insensitive. Routes with a host take precedence over routes without. */
  host?: string;
  /** A key of `upstreams`. */
  upstream: string;
  /** The name under which slots are taken. Default: host and path. */
  name?: string;
  /** Connections may be upgraded on this route, each with a slot. Without it upgrades get 501. */
  connections?: RouteConnections;
}

export interface RouteConnections {
  /** Protocols that a connection may be upgraded to, case-insensitive. Default `websocket`. HTTP/2 is never allowed. */
  protocols?: string[];
  /** Close a connection after this long without a byte in either direction. 0, the default: never. */
  idleMs?: number;
  /** Probe a silent peer (TCP keep-alive) after this long. 0: never. Default 30,000. */
  pingMs?: number;
}

export interface UpstreamOptions {
  /** `host:port`, or an origin with `http:` or `https:`. Without it the targets are set by `setTargets`; until then there are none. */
  targets?: string[];
  /** Connections to one target; further requests are queued. Default 512. */
  connections?: number;
  /** Forward the client's Host header (default), or send the target's. */
  passHost?: boolean;
  /** Skip a target for `downMs` after this many failed requests in a row. */
  passive?: { failures?: number; downMs?: number };
  /** Health checks. */
  active?: {
    path: string;
    intervalMs?: number;
    timeoutMs?: number;
    /** Consecutive successes after which a target is healthy, and failures after which it is not. */
    healthyAfter?: number;
    unhealthyAfter?: number;
  };
}

/** Requests above these limits are rejected: 431 for headers, 413 for a body. */
export interface Limits {
  headerBytes: number;
  headerCount: number;
  bodyBytes: number;
}

export interface Timeouts {
  connectMs: number;
  /** From the request's last byte to the response's header. */
  responseMs: number;
  /** Without a byte of a body, in either direction and on either side. */
  bodyIdleMs: number;
  /** For a client to send the whole header. */
  headersMs: number;
  /** For a client to send the whole request, body included. 0: no limit while bytes keep arriving. */
  requestMs: number;
  /** Between two requests of a client. */
  keepAliveMs: number;
  /** After an early response, read and discard input for this long so that the client receives the response. */
  lingerMs: number;
}
