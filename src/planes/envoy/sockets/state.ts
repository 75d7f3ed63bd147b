/** What one Lua state of Envoy knows of WebSockets. It never hears of their end: Envoy's access log tells the service that. */

import type { EnvoySocketRoutes } from "../../../config/options/plane-options.js";

export interface SocketState {
  routes: EnvoySocketRoutes;
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

export function startSockets(routes: EnvoySocketRoutes, proxy: string, workers: number): void {
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
