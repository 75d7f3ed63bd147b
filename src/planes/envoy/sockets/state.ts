/** State of one Lua state of Envoy for WebSockets. Their end is reported to the service by Envoy's access log, not to the script. */
import type { EnvoySocketRoutes } from "../../../config/options/plane-options.js";
import { newStoreContact, type StoreContact } from "../../../engine/slots/contact.js";
import type { AdmissionTimes } from "../../../engine/slots/without-store.js";

export interface SocketState {
  routes: EnvoySocketRoutes;
  /** This Lua state: a new name after each start and each change of Envoy's listener. */
  proxy: string;
  /** Lua states of this Envoy, which decide separately. */
  workers: number;
  lastConnection: number;
  /** Rotates the candidates. */
  turn: number;
  contact: StoreContact;
  /** Admissions without the store. */
  admittedAt: AdmissionTimes;
}

/** Filled when the script is loaded. One table, so that functions need no parameter for it. */
export const sockets = {} as SocketState;

export function startSockets(routes: EnvoySocketRoutes, proxy: string, workers: number): void {
  sockets.routes = routes;
  sockets.proxy = proxy;
  sockets.workers = workers;
  sockets.lastConnection = 0;
  sockets.turn = 0;
  sockets.contact = newStoreContact(0);
  sockets.admittedAt = {};
}
