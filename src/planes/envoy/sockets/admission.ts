/**
 * WebSockets in Envoy: a slot is taken before a pod is dialled, and exactly the pod of the slot is dialled.
 *
 * What is written into the stream's metadata, before anybody is asked, comes to the service when the stream ends, however
 * it ends: so a client that leaves while its slot is being taken does not leave the slot behind.
 */

import type { EnvoySocketRoute } from "../../../config/options/plane-options.js";
import { SLOT_FORGOTTEN, STORE_UNAVAILABLE } from "../../../core/codes.js";
import { splitText, wholeText } from "../../../core/platform.js";
import { connectionRefusal, connectionRetryAfter, gatewayRefusal, type Refusal } from "../../../core/refusals.js";
import { luaMath, luaString } from "../../lua/library.js";
import { ABSENT, ANSWERED, type SlotAnswer } from "../../lua/slot-answer.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import { placeInTheDark } from "./dark.js";
import { holdSocket } from "./held.js";
import { candidates, podFailed, podSucceeded } from "./pods.js";
import { acquireSlot } from "./slots.js";
import { sockets } from "./state.js";

const NAMESPACE = "tollgate";
/** Priced as a method of its own: a connection may move gigabytes, which must not be expected of requests. */
export const UPGRADE = "UPGRADE";
const NO_CONNECTIONS = "no_connections";
/** Entries of those that live may be late by so much. */
const LATE_MS = 1000;

/** The name of the route that a request is on, as the configuration has it. */
function routeName(handle: Handle): string {
  const name = handle.metadata().get("route");
  return typeof name === "string" ? name : "";
}

/** Before anything is paid: whether the route takes such a connection at all. */
export function judgeUpgrade(handle: Handle): Refusal | undefined {
  const headers = handle.headers();
  const wanted = headers.get("upgrade");
  const route = sockets.routes[routeName(handle)];
  if (wanted === undefined || route === undefined || !isOffered(route, wanted)) {
    return gatewayRefusal("unsupported_upgrade");
  }
  const length = headers.get("content-length");
  if (length !== undefined && length !== "0") return gatewayRefusal("malformed_request");
  if (headers.get(":method") === "HEAD") return gatewayRefusal("unsupported_upgrade");
  return undefined;
}

/** A version, as in `name/1`, need not be listed. */
function isOffered(route: EnvoySocketRoute, wanted: string): boolean {
  for (const token of splitText(wanted, ",")) {
    const name = luaString.lower(luaString.match(token, "^%s*(.-)%s*$") ?? "");
    const bare = luaString.match(name, "^[^/]*") ?? "";
    for (const protocol of route.protocols) if (protocol === name || protocol === bare) return true;
  }
  return false;
}

/**
 * Takes a slot for the connection of an app, and names its pod to Envoy; answers a refusal otherwise. `paid` is what was
 * taken for it, to be settled when it ends; below zero where nothing is to be settled.
 */
export function admitUpgrade(handle: Handle, app: string, paid: number, liveNodes: number): Refusal | undefined {
  const name = routeName(handle);
  const route = sockets.routes[name]!;
  const pods = candidates(handle, route, nowMs());
  const connection = mark(handle, name, app, paid);
  const answer = ask(handle, connection, name, app, pods);
  let { pod } = answer;
  if (answer.outcome === ABSENT) {
    const placed = placeInTheDark(name, route, app, pods, nowMs(), liveNodes);
    if (placed === undefined) {
      unmark(handle, false);
      return refusal(STORE_UNAVAILABLE, route, app, 0);
    }
    pod = placed;
  } else if (!answer.allowed) {
    unmark(handle, answer.outcome === ANSWERED);
    const code = answer.outcome === ANSWERED ? answer.code : NO_CONNECTIONS;
    return refusal(code, route, app, answer.retryAfterSeconds);
  }
  // What was had of the stream before waiting is no good any more.
  handle.streamInfo().dynamicMetadata().set(NAMESPACE, "pod", pod);
  handle.setUpstreamOverrideHost(pod, true);
  holdSocket(handle, pod, app);
  return undefined;
}

/** Answers the connection's id. */
function mark(handle: Handle, route: string, app: string, paid: number): string {
  sockets.lastConnection = sockets.lastConnection + 1;
  const connection = wholeText(sockets.lastConnection);
  const marks = handle.streamInfo().dynamicMetadata();
  marks.set(NAMESPACE, "connection", connection);
  marks.set(NAMESPACE, "proxy", sockets.proxy);
  marks.set(NAMESPACE, "app", app);
  marks.set(NAMESPACE, "route", route);
  if (paid >= 0) {
    marks.set(NAMESPACE, "paid", paid);
    marks.set(NAMESPACE, "method", UPGRADE);
    marks.set(NAMESPACE, "settle", true);
  }
  return connection;
}

/** Refused: whoever took the price settles it. Where the store has not said so, a slot may have been taken all the same. */
function unmark(handle: Handle, sure: boolean): void {
  const marks = handle.streamInfo().dynamicMetadata();
  marks.set(NAMESPACE, "settle", false);
  if (sure) marks.set(NAMESPACE, "connection", "");
}

function ask(handle: Handle, connection: string, route: string, app: string, pods: string[]): SlotAnswer {
  if (nowMs() < sockets.heldBackUntil) return unanswered;
  const answer = acquireSlot(handle, connection, app, route, pods);
  const away = answer.outcome === ABSENT;
  if (away !== sockets.away) {
    sockets.away = away;
    handle.logWarn(`tollgate: slots are given ${away ? "without the store" : "by the store again"}`);
  }
  if (answer.outcome !== ANSWERED) return answer;
  sockets.memory = answer.memory;
  if (answer.code !== SLOT_FORGOTTEN) return answer;
  // Those who live are counted first: within a third of the lease each of them is told of.
  sockets.heldBackUntil = nowMs() + sockets.routes[route]!.leaseMs / 3 + LATE_MS;
  handle.logWarn("tollgate: the store has forgotten the connections: they are counted anew");
  return unanswered;
}

const unanswered: SlotAnswer = {
  outcome: ABSENT,
  allowed: false,
  code: "",
  pod: "",
  retryAfterSeconds: 0,
  memory: "0",
};

function refusal(code: string, route: EnvoySocketRoute, app: string, toldSeconds: number): Refusal {
  const retryAfter = toldSeconds > 0 ? toldSeconds : connectionRetryAfter(code, 0, luaMath.random());
  return connectionRefusal({ code, app, limits: route, retryAfter });
}

/** The response to an upgrade that was let in: a pod that could not be reached is passed over for a while. */
export function upgradeAnswered(handle: Handle): void {
  const marks = handle.streamInfo().dynamicMetadata().get(NAMESPACE);
  if (marks === undefined) return;
  const { pod, route: name } = marks;
  if (typeof pod !== "string" || typeof name !== "string") return;
  const route = sockets.routes[name];
  if (route === undefined) return;
  if (!isEnvoysOwn(handle)) {
    podSucceeded(handle, pod);
    return;
  }
  if (podFailed(handle, route, pod, nowMs())) handle.logWarn(`tollgate: target is passed over: ${pod}`);
  // Whoever asks again is sent to another one.
  if (route.pods.length > 1) handle.headers().replace("retry-after", "1");
}

/**
 * Envoy's own words for a backend that it did not reach have no date when they come by here; those of backends have. One
 * that answers 503 without a date is taken for unreachable.
 */
function isEnvoysOwn(handle: Handle): boolean {
  const headers = handle.headers();
  const status = headers.get(":status");
  const date = headers.get("date");
  return status === "503" && date === undefined;
}
