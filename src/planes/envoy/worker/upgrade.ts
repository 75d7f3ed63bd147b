/** Upgrades on a worker thread: which are accepted, and the pod on which the main thread has placed one. */

import type { EnvoySocketRoute } from "../../../config/options/plane-options.js";
import { trimmed } from "../../../core/address.js";
import { STORE_UNAVAILABLE } from "../../../core/codes.js";
import { INVALID_COST } from "../../../core/cost.js";
import { splitText, storedNumber, wholeText } from "../../../core/platform.js";
import {
  connectionRefusal,
  connectionRetryAfter,
  type GatewayError,
  gatewayRefusal,
  type Refusal,
} from "../../../core/refusals.js";
import type { Exchange } from "../../lua/http/exchanges.js";
import { settle } from "../../lua/http/limiter.js";
import { luaMath, luaString, luaTable } from "../../lua/library.js";
import { isListed } from "../../lua/upgrade.js";
import { ANSWERED, ENDED, FAILED, PLACED, SLOT, UNREACHED } from "../messages.js";
import { coroutine, lib, resultText, state } from "../module-api.js";
import { envoy } from "../module-state.js";
import { header } from "./request.js";
import { refuseHead, responseHeader } from "./response.js";

const SWITCHING_PROTOCOLS = "101";

/** By name. Filled when the worker starts. */
const routes: { [name: string]: EnvoySocketRoute | undefined } = {};

export function prepareUpgrades(): void {
  for (const route of envoy.options.socketRoutes) routes[route.name] = route;
}

/** Whether the request asks for an upgrade. Only Envoys with such routes pass it on. */
export function asksForUpgrade(): boolean {
  return envoy.options.socketRoutes.length > 0 && header("upgrade") !== "";
}

/** Why the route does not accept the upgrade; empty if it does. */
export function upgradeProblem(routeName: string | undefined, method: string): GatewayError | "" {
  const route = routeName === undefined ? undefined : routes[routeName];
  if (route === undefined || !isOffered(route, header("upgrade"))) return "unsupported_upgrade";
  const length = header("content-length");
  if (length !== "" && length !== "0") return "malformed_request";
  return method === "HEAD" ? "unsupported_upgrade" : "";
}

function isOffered(route: EnvoySocketRoute, wanted: string): boolean {
  for (const token of splitText(wanted, ",")) {
    if (isListed(luaString.lower(trimmed(token)), route.protocols)) return true;
  }
  return false;
}

/** Connections by the number of their stream. */
const connections: { [stream: number]: Socket | undefined } = {};

interface Socket {
  connection: string;
  route: EnvoySocketRoute;
  answered: boolean;
  switched: boolean;
}

/** Takes a slot for an upgrade that is paid for. Waits. Returns the refusal if there is none. */
export function placeUpgrade(
  stream: number,
  exchange: Exchange,
  routeName: string,
  client: string,
): Refusal | undefined {
  const { id: app, dryRun } = exchange.account.limits;
  const route = routes[routeName]!;
  const waiter = lib.tollgate_wait(state, 0);
  const kept = lib.tollgate_keep(state);
  const asked = [
    SLOT,
    wholeText(waiter),
    wholeText(kept),
    app,
    client === "" ? "-" : client,
    dryRun ? "1" : "0",
    routeName,
  ];
  const text = luaTable.concat(asked, " ");
  // Without a number the connection could not be closed when it loses its slot.
  if (waiter < 0 || kept < 0 || lib.tollgate_tell(state, text, text.length) === 0) {
    return refusal(STORE_UNAVAILABLE, app, route, 0);
  }
  coroutine.yield();
  const words = lib.tollgate_answered(state) === 1 ? splitText(resultText(), " ") : [];
  if (words[0] === FAILED) return gatewayRefusal(words[1] as GatewayError);
  if (words[0] !== PLACED) {
    return refusal(words[1] ?? STORE_UNAVAILABLE, app, route, storedNumber(words[2] ?? false, 0));
  }
  const pod = words[1]!;
  connections[stream] = { connection: words[2]!, route, answered: false, switched: false };
  if (words[3] !== "-") exchange.code = words[3]!;
  lib.tollgate_choose_host(state, pod, pod.length);
  return undefined;
}

function refusal(code: string, app: string, limits: EnvoySocketRoute, seconds: number): Refusal {
  const retryAfter = seconds > 0 ? seconds : connectionRetryAfter(code, 0, luaMath.random());
  return connectionRefusal({ code, app, limits, retryAfter });
}

function tell(kind: string, { connection }: Socket): void {
  const text = `${kind} ${connection}`;
  lib.tollgate_tell(state, text, text.length);
}

/** The response to an upgrade. `local`: it is Envoy's own. Returns true if the client should try another pod. */
export function upgradeAnswered(stream: number, local: boolean): boolean {
  const socket = connections[stream];
  if (socket === undefined) return false;
  if (local) {
    tell(UNREACHED, socket);
    return socket.route.pods.length > 1;
  }
  socket.answered = true;
  socket.switched = responseHeader(":status") === SWITCHING_PROTOCOLS;
  // Only then the end of a frame is known, after which a close frame may follow.
  if (socket.switched && luaString.lower(responseHeader("upgrade")) === "websocket") lib.tollgate_websocket(state);
  tell(ANSWERED, socket);
  return false;
}

/** Whether the pod has accepted the upgrade. */
export function hasSwitched(stream: number): boolean {
  return connections[stream]?.switched === true;
}

/** The pod has not answered in time: prepares the response to the current upgrade. */
export function onLate(this: void): void {
  refuseHead("upstream_timeout");
}

/** The stream has ended: its slot is released, and its actual cost is settled. */
export function endUpgrade(stream: number, exchange: Exchange, requestBytes: number, responseBytes: number): void {
  const socket = connections[stream];
  connections[stream] = undefined;
  if (socket !== undefined) tell(ENDED, socket);
  if (socket === undefined || !socket.answered) settle(exchange, 0, 0);
  else if (!socket.switched) settle(exchange, 0, responseBytes);
  else {
    // A connection pays for its bytes.
    exchange.reportedCost = INVALID_COST;
    settle(exchange, requestBytes, responseBytes);
  }
}
