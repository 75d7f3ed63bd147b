/** A slot for a request that leaves HTTP: asked for when its price is paid, and the pod that it is on is the one that is called. */

import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { SLOT_FORGOTTEN, STORE_UNAVAILABLE } from "../../../core/codes.js";
import { connectionRefusal, connectionRetryAfter } from "../../../core/refusals.js";
import { luaMath, luaString } from "../../lua/library.js";
import { ANSWERED, BUSY, MISFIT, type SlotAnswer } from "../../lua/slot-answer.js";
import { nowMs } from "../clock.js";
import { addressOf, type Exchange } from "../http/exchanges.js";
import { refuseHead, sendRefusal } from "../http/response.js";
import { ngx, type RequestPointer } from "../ngx.js";
import { worker } from "../state.js";
import { placeInTheDark } from "./dark.js";
import { descriptorOf, NO_DESCRIPTOR, probe } from "./descriptor.js";
import { endHeld } from "./end.js";
import { countSlotDecision } from "./numbers.js";
import { candidates, ofLastPod, podFailed, upstreamOf } from "./pods.js";
import { register } from "./registry.js";
import { addEnded, sendEndedSoon } from "./releases.js";
import { isReady, learnMemory, storeFailed, takeStock } from "./renewal.js";
import { acquireSlot } from "./slots.js";
import { enlist, type Held, keeper } from "./state.js";

/** The route has no limits at the service. */
const NO_CONNECTIONS = "no_connections";

function newConnection(): string {
  keeper.lastConnection = keeper.lastConnection + 1;
  return luaString.format("%d", keeper.lastConnection);
}

/** In the access phase. Answers the request where there is no slot for it; comes back where it may go on to its pod. */
export function placeSocket(
  request: RequestPointer,
  exchange: Exchange,
  route: NginxSocketRoute,
  protocols: string,
): void {
  const address = addressOf(request);
  const before = keeper.byRequest[address];
  let failedPod = "";
  if (before !== undefined) {
    failedPod = before.pod;
    giveUpPod(route, before);
  }
  const pods = candidates(route, failedPod);
  if (pods.length === 0) {
    if (before !== undefined) refuseUnreachable();
    refuseHead("no_target");
  }
  const one = newHeld(exchange.app.limits.id, route.name);
  keeper.byRequest[address] = one;
  const asked = nowMs();
  const answer = ask(one, pods, asked + worker.settings.timeoutMs);
  if (answer !== undefined && answer.outcome === ANSWERED) {
    countSlotDecision(answer.allowed, answer.code, asked);
    if (!answer.allowed) {
      if (before !== undefined) refuseUnreachable();
      refuseSlot(answer.code, exchange, route, answer.retryAfterSeconds);
    }
    letIn(one, request, route, answer.pod, true);
  } else {
    if (answer !== undefined && answer.outcome === MISFIT) {
      countSlotDecision(false, NO_CONNECTIONS, asked);
      refuseSlot(NO_CONNECTIONS, exchange, route, 0);
    }
    const pod = placeInTheDark(route, one.app, pods);
    countSlotDecision(pod !== undefined, STORE_UNAVAILABLE, asked);
    if (pod === undefined) {
      if (before !== undefined) refuseUnreachable();
      refuseSlot(STORE_UNAVAILABLE, exchange, route, 0);
      return;
    }
    one.connection = newConnection();
    letIn(one, request, route, pod, false);
  }
  ngx.var.tollgate_upstream = upstreamOf(route, one.pod);
  ngx.var.tollgate_pod = one.pod;
  ngx.var.tollgate_connection = "Upgrade";
  ngx.var.tollgate_protocols = protocols;
}

function newHeld(app: string, route: string): Held {
  return {
    connection: "",
    pod: "",
    app,
    route,
    asked: [],
    leased: false,
    told: false,
    // There is nothing to end before it is let in.
    ended: true,
    place: 0,
    descriptor: NO_DESCRIPTOR,
    calledAt: 0,
    answered: false,
    before: undefined,
    after: undefined,
  };
}

/**
 * nginx comes back because the pod could not be reached: another one is asked once, with a slot of its own. Where the pod
 * was reached and did not answer as it should, the client is told so.
 */
function giveUpPod(route: NginxSocketRoute, one: Held): void {
  podFailed(route, one.pod);
  endHeld(one);
  if (ofLastPod("upstream_connect_time") !== "-") {
    if (ofLastPod("upstream_status") === "504") refuseHead("upstream_timeout");
    refuseHead("upstream_broken");
  }
}

function refuseUnreachable(): void {
  if (ofLastPod("upstream_status") === "504") refuseHead("upstream_connect_timeout");
  refuseHead("upstream_unreachable");
}

/** Undefined where the store was not asked, or did not say. */
function ask(one: Held, pods: string[], until: number): SlotAnswer | undefined {
  // What is left after waiting is enough for the store to answer: a short deadline would say nothing about it.
  const waitUntil = until - worker.settings.timeoutMs / 2;
  while (isReady(waitUntil)) {
    const sentAt = nowMs();
    one.connection = newConnection();
    one.asked = pods;
    const answer = acquireSlot(one, pods, false, Math.max(until - sentAt, 1));
    one.asked = [];
    // The worker stood still meanwhile: the slot that it was given may be somebody else's by now.
    const tooLate = nowMs() - sentAt >= keeper.leaseMs / 3;
    if (answer.outcome === ANSWERED && !tooLate) {
      learnMemory(answer.memory);
      if (answer.code !== SLOT_FORGOTTEN) return answer;
      takeStock();
    } else {
      if (answer.outcome === MISFIT) return answer;
      storeFailed(answer.outcome);
      if (answer.outcome !== BUSY) releaseAll(one, pods);
      return undefined;
    }
  }
  return undefined;
}

/** It may have been carried out, or be carried out yet, on any of the pods. */
export function releaseAll(one: Held, pods: string[]): void {
  for (const pod of pods) addEnded({ proxy: keeper.proxy, connection: one.connection, pod, app: one.app });
  sendEndedSoon();
}

function letIn(one: Held, request: RequestPointer, route: NginxSocketRoute, pod: string, leased: boolean): void {
  one.pod = pod;
  one.leased = leased;
  one.told = leased;
  one.ended = false;
  one.descriptor = descriptorOf(request);
  one.calledAt = nowMs();
  enlist(one);
  keeper.calling = keeper.calling + 1;
  // Those that were let in without the store are counted already.
  register(one, !leased);
  probe(one.descriptor, route.pingMs);
}

function refuseSlot(code: string, exchange: Exchange, route: NginxSocketRoute, seconds: number): void {
  const retryAfter = seconds > 0 ? seconds : connectionRetryAfter(code, 0, luaMath.random());
  sendRefusal(connectionRefusal({ code, app: exchange.app.limits.id, limits: route, retryAfter }));
}
