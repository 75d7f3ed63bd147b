/**
 * WebSockets in Envoy: a slot is taken before Envoy connects to a pod, and Envoy connects to the pod of the slot.
 *
 * The stream's metadata is written before the service is asked. The access log sends it to the service when the stream
 * ends, in whatever way: so a slot is also released if the client leaves while it is being taken.
 */
import type { EnvoySocketRoute } from "../../../config/options/plane-options.js";
import { OK, STORE_UNAVAILABLE } from "../../../core/codes.js";
import { splitText, wholeText } from "../../../core/platform.js";
import {
  connectionRefusal,
  connectionRetryAfter,
  gatewayRefusal,
  isLiftedByDryRun,
  type Refusal,
} from "../../../core/refusals.js";
import { renewalMs } from "../../../core/slot-lease.js";
import { knownNodes } from "../../../engine/node.js";
import { UPGRADE } from "../../../engine/settle.js";
import { candidatePods, DECIDED, meaningOf, NO_CONNECTIONS, STATE_LOST } from "../../../engine/slots/admission.js";
import {
  ANSWERED,
  newStoreContact,
  noteIncarnation,
  type StoreContact,
  UNAVAILABLE,
} from "../../../engine/slots/contact.js";
import { placeWithoutStore } from "../../../engine/slots/without-store.js";
import { luaMath, luaString } from "../../lua/library.js";
import { ACQUIRE_PATH, acquireText, readAcquired, type SlotReply } from "../../lua/slot-messages.js";
import { isListed, trimmed } from "../../lua/upgrade.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import type { Exchange } from "../http/exchanges.js";
import { callService } from "../service-calls.js";
import { worker } from "../state.js";
import { heldCounters, holdSocket } from "./held.js";
import { podFailed, podHealth, podSucceeded } from "./pods.js";

/** Of this Lua state. The end of a connection is reported to the service by Envoy's access log, not to the script. */
const sockets = {
  lastConnection: 0,
  /** Rotates the candidates. */
  turn: 0,
};

/** Contact with the store, by route. */
const contacts: { [route: string]: StoreContact | undefined } = {};

function contactOf(route: string): StoreContact {
  const known = contacts[route] ?? newStoreContact(0);
  contacts[route] = known;
  return known;
}

const NAMESPACE = "tollgate";
/** Access log entries of open connections may be late by so much. */
const LATE_MS = 1000;

/** The name of the request's route in the configuration. */
function routeName(handle: Handle): string {
  const name = handle.metadata().get("route");
  return typeof name === "string" ? name : "";
}

/** Before the upgrade is paid for: refuses it if the route does not accept it. */
export function judgeUpgrade(handle: Handle): Refusal | undefined {
  const headers = handle.headers();
  const wanted = headers.get("upgrade");
  const route = worker.options.socketRoutes[routeName(handle)];
  if (wanted === undefined || route === undefined || !isOffered(route, wanted)) {
    return gatewayRefusal("unsupported_upgrade");
  }
  const length = headers.get("content-length");
  if (length !== undefined && length !== "0") return gatewayRefusal("malformed_request");
  if (headers.get(":method") === "HEAD") return gatewayRefusal("unsupported_upgrade");
  return undefined;
}

function isOffered(route: EnvoySocketRoute, wanted: string): boolean {
  for (const token of splitText(wanted, ",")) {
    if (isListed(luaString.lower(trimmed(token)), route.protocols)) return true;
  }
  return false;
}

/**
 * Takes a slot for an admitted upgrade and sets its pod as the upstream host. Returns a refusal otherwise. The estimated
 * cost is settled when the connection ends.
 */
export function admitUpgrade(handle: Handle, exchange: Exchange): Refusal | undefined {
  const liveNodes = knownNodes(exchange.account.node);
  const { id: app, dryRun } = exchange.account.limits;
  const paid = exchange.code === OK ? exchange.cost : -1;
  const name = routeName(handle);
  const route = worker.options.socketRoutes[name]!;
  const pods = candidatePods(route.pods, sockets.turn, "", podHealth(handle, nowMs()));
  sockets.turn = sockets.turn + 1;
  mark(handle, name, app, paid);
  const reply = ask(handle, name, app, pods);
  let pod: string | undefined;
  if (reply === undefined) {
    const { workers } = worker.options;
    const asked = { counters: heldCounters(name), limits: route, route: name, app, pods, liveNodes, workers };
    pod = placeWithoutStore(asked, nowMs());
  } else if (reply.allowed) pod = reply.pod;
  if (pod === undefined) {
    const code = refusalCode(reply);
    if (!dryRun || !isLiftedByDryRun(code)) return refuseSlot(handle, route, app, reply);
    exchange.code = code;
    placeSlotless(handle, pods[0]!, reply);
    return undefined;
  }
  // The metadata object from before the call is not valid any more.
  handle.streamInfo().dynamicMetadata().set(NAMESPACE, "pod", pod);
  handle.setUpstreamOverrideHost(pod, true);
  holdSocket(handle, { pod, app, route: name });
  return undefined;
}

function mark(handle: Handle, route: string, app: string, paid: number): void {
  sockets.lastConnection = sockets.lastConnection + 1;
  const marks = handle.streamInfo().dynamicMetadata();
  marks.set(NAMESPACE, "connection", wholeText(sockets.lastConnection));
  marks.set(NAMESPACE, "proxy", worker.name);
  marks.set(NAMESPACE, "app", app);
  marks.set(NAMESPACE, "route", route);
  if (paid >= 0) {
    marks.set(NAMESPACE, "paid", paid);
    marks.set(NAMESPACE, "method", UPGRADE);
    marks.set(NAMESPACE, "settle", true);
  }
}

/** Undefined when the decision must be made without the store. A request cannot wait here until all slots are renewed. */
function ask(handle: Handle, route: string, app: string, pods: string[]): SlotReply | undefined {
  const contact = contactOf(route);
  const sentAt = nowMs();
  if (sentAt < contact.heldBackUntil) return undefined;
  const connection = wholeText(sockets.lastConnection);
  const message = {
    proxy: worker.name,
    connection,
    app,
    route,
    pods,
    reclaim: false,
    incarnation: contact.incarnation,
  };
  const { clusters, socketRoutes } = worker.options;
  const { status, body } = callService(handle, clusters.control, ACQUIRE_PATH, acquireText(message));
  // The service itself reports that the store is unavailable. Other failures are configuration errors or bugs.
  if (status !== 200 && status !== 503 && status !== 504) {
    handle.logErr(`tollgate: no slot was taken: ${wholeText(status)} ${body}`);
  }
  const reply = readAcquired(status, body);
  const { leaseMs } = socketRoutes[route]!;
  const meaning = meaningOf(reply.outcome, reply.code, nowMs() - sentAt, leaseMs);
  const away = reply.outcome === UNAVAILABLE;
  if (away !== contact.away) {
    contact.away = away;
    const state = away ? "unavailable: connections are decided without it" : "available";
    handle.logWarn(`tollgate: the store is ${state}: ${route}`);
  }
  if (meaning === DECIDED || meaning === STATE_LOST) {
    contact.holdBackMs = renewalMs(leaseMs) + LATE_MS;
    if (noteIncarnation(contact, reply.incarnation, nowMs())) {
      handle.logWarn(`tollgate: the store lost its connection slots: all connections are renewed: ${route}`);
    }
  }
  return meaning === DECIDED ? reply : undefined;
}

function refusalCode(reply: SlotReply | undefined): string {
  if (reply === undefined) return STORE_UNAVAILABLE;
  return reply.outcome === ANSWERED ? reply.code : NO_CONNECTIONS;
}

/** Unless the store has replied, a slot may have been taken: it is released at the end of the stream. */
function unmarkSlot(handle: Handle, reply: SlotReply | undefined): void {
  if (reply === undefined) return;
  handle.streamInfo().dynamicMetadata().set(NAMESPACE, "connection", "");
}

/** In a dry run a connection above a limit is open without a slot. Without the mark of a pod its entries renew none. */
function placeSlotless(handle: Handle, pod: string, reply: SlotReply | undefined): void {
  unmarkSlot(handle, reply);
  handle.setUpstreamOverrideHost(pod, true);
}

/** The price is settled by the caller. */
function refuseSlot(handle: Handle, route: EnvoySocketRoute, app: string, reply: SlotReply | undefined): Refusal {
  handle.streamInfo().dynamicMetadata().set(NAMESPACE, "settle", false);
  unmarkSlot(handle, reply);
  const code = refusalCode(reply);
  let retryAfter = reply === undefined ? 0 : reply.retryAfterSeconds;
  if (retryAfter === 0) retryAfter = connectionRetryAfter(code, 0, luaMath.random());
  return connectionRefusal({ code, app, limits: route, retryAfter });
}

/** The response to an upgrade: a pod that could not be reached is down for a while. */
export function upgradeAnswered(handle: Handle): void {
  const marks = handle.streamInfo().dynamicMetadata().get(NAMESPACE);
  if (marks === undefined) return;
  const { pod, route: name } = marks;
  if (typeof pod !== "string" || typeof name !== "string") return;
  const route = worker.options.socketRoutes[name];
  if (route === undefined) return;
  if (!isEnvoysOwn(handle)) {
    podSucceeded(handle, pod);
    return;
  }
  if (podFailed(handle, route, pod, nowMs())) handle.logWarn(`tollgate: target is down: ${pod}`);
  // A retry is sent to another pod.
  if (route.pods.length > 1) handle.headers().replace("retry-after", "1");
}

/**
 * Envoy's own response for an unreachable backend has no date in this phase; responses of backends have one. A backend
 * that responds with 503 and no date is taken for unreachable.
 */
function isEnvoysOwn(handle: Handle): boolean {
  const headers = handle.headers();
  return headers.get(":status") === "503" && headers.get("date") === undefined;
}
