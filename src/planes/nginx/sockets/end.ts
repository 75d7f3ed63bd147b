/** The end of an upgraded connection: its slot is released once, and its actual cost is settled. */
import { INVALID_COST } from "../../../core/cost.js";
import { storedNumber } from "../../../core/platform.js";
import { removeHeld } from "../../../engine/slots/held.js";
import { endSlot } from "../../../engine/slots/keeper.js";
import { releaseOnAll } from "../../../engine/slots/slot-admission.js";
import type { Exchange } from "../../lua/http/exchanges.js";
import { settle } from "../../lua/http/limiter.js";
import { podFailed, podSucceeded } from "../../lua/sockets/pods.js";
import { ngx } from "../ngx.js";
import { ofLastPod } from "./pods.js";
import { callSoon, forgetSlot } from "./renewal.js";
import { type NginxSlot, sockets } from "./state.js";

/** Repeated calls do nothing. */
export function endConnection(slot: NginxSlot): void {
  // The request ended while its slot was being taken.
  const { keeper } = slot.on;
  if (slot.pending !== undefined) releaseOnAll(keeper, slot.pending, slot.connection);
  slot.pending = undefined;
  if (slot.slotless) endSlotless(slot);
  else if (endSlot(keeper, slot)) forgetSlot(slot);
  callSoon(slot.on);
}

function endSlotless(slot: NginxSlot): void {
  if (slot.ended) return;
  slot.ended = true;
  removeHeld(slot.on.slotless, slot);
  if (!slot.answered) sockets.calling = sockets.calling - 1;
}

/** In the header filter: notes whether the pod answered, with any status. */
export function socketAnswered(exchange: Exchange): void {
  const slot = sockets.byExchange[exchange.id];
  if (slot === undefined || slot.ended || slot.answered) return;
  const answeredAfter = ofLastPod("upstream_header_time");
  if (answeredAfter === undefined || answeredAfter === "-") return;
  slot.answered = true;
  sockets.calling = sockets.calling - 1;
  podSucceeded(slot.pod);
}

/** In the log phase. */
export function endSocket(exchange: Exchange): void {
  const slot = sockets.byExchange[exchange.id];
  sockets.byExchange[exchange.id] = undefined;
  if (slot === undefined) {
    settle(exchange, 0, 0);
    return;
  }
  const { status } = ngx;
  if (!slot.answered && !slot.ended && (status === 502 || status === 504)) podFailed(slot.on.options, slot.pod);
  endConnection(slot);
  if (!slot.answered) {
    settle(exchange, 0, 0);
    return;
  }
  const answered = storedNumber(ngx.var.body_bytes_sent ?? false, 0);
  if (status !== 101) {
    settle(exchange, 0, answered);
    return;
  }
  // nginx counts the request head with the bytes sent to the pod. It is about as long as the head that nginx received.
  const sent = storedNumber(ofLastPod("upstream_bytes_sent") ?? false, 0);
  const passed = Math.max(sent - storedNumber(ngx.var.request_length ?? false, 0), 0);
  // A connection pays for its bytes.
  exchange.reportedCost = INVALID_COST;
  settle(exchange, passed, answered);
}
