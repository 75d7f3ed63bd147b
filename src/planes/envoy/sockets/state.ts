/** What one Lua state of Envoy knows of WebSockets. It never hears of their end: Envoy's access log tells the service that. */

/** A route with `connections`, as `tollgate render envoy` writes it down. */
export interface SocketRoute {
  maxPerPod: number;
  maxTotal: number;
  maxPerApp: number;
  ratePerSecond: number;
  burst: number;
  leaseMs: number;
  onStoreFailure: string;
  /** What may be asked for, in lower case. */
  protocols: string[];
  /** `ip:port` each. */
  pods: string[];
  /** For so long a pod is passed over that could not be reached. */
  downMs: number;
}

export interface SocketRoutes {
  /** By host and path. */
  [name: string]: SocketRoute | undefined;
}

export interface SocketState {
  routes: SocketRoutes;
  /** This state in this life of it: another one after each start, and after each change of Envoy's listener. */
  proxy: string;
  /** States of this Envoy that decide each for itself. */
  workers: number;
  lastConnection: number;
  /** Turned, so that of pods with the same load not always the same one is first. */
  turn: number;
  /** Since when the store remembers, as its last answer told it; "0": not known. Too long for a number in text. */
  memory: string;
  /** A store that forgot is left to those whose connections live, until then. */
  heldBackUntil: number;
  /** The store, or the service, did not answer when it was last asked. */
  away: boolean;
  /** By route: when connections were let in without the store. */
  darkAt: { [route: string]: number[] | undefined };
}

/** Filled when the script is loaded; one table, so that functions find it without being handed it. */
export const sockets = {} as SocketState;

export function startSockets(routes: SocketRoutes, proxy: string, workers: number): void {
  sockets.routes = routes;
  sockets.proxy = proxy;
  sockets.workers = workers;
  sockets.lastConnection = 0;
  sockets.turn = 0;
  sockets.memory = "0";
  sockets.heldBackUntil = 0;
  sockets.away = false;
  sockets.darkAt = {};
}
