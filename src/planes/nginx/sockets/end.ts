/** The end of an upgraded connection, however it came about: its slot goes back once, and what it moved is paid for. */
import { storedNumber } from "../../../core/platform.js";
import { addressOf, type Exchange } from "../http/exchanges.js";
import { settle } from "../http/limiter.js";
import { ngx, type RequestPointer } from "../ngx.js";
import { ofLastPod, podFailed, podSucceeded } from "./pods.js";
import { addEnded, sendEndedSoon } from "./releases.js";
import { dropHeld } from "./renewal.js";
import { type Held, keeper } from "./state.js";

/** Frees what it holds, if it holds anything. */
export function endHeld(one: Held): void {
  const { proxy } = keeper;
  const { connection, app } = one;
  // The request ended while it was asked for: it may be on any of them, or be taken yet.
  for (const pod of one.asked) addEnded({ proxy, connection, pod, app });
  one.asked = [];
  if (!one.ended) {
    dropHeld(one);
    if (one.told) addEnded({ proxy, connection, pod: one.pod, app });
  }
  sendEndedSoon();
}

/** In the header filter: whether the pod answered, whatever it said. */
export function socketAnswered(request: RequestPointer): void {
  const one = keeper.byRequest[addressOf(request)];
  if (one === undefined || one.ended || one.answered) return;
  const answeredAfter = ofLastPod("upstream_header_time");
  if (answeredAfter === undefined || answeredAfter === "-") return;
  one.answered = true;
  keeper.calling = keeper.calling - 1;
  podSucceeded(one.pod);
}

/** In the log phase. */
export function endSocket(request: RequestPointer, exchange: Exchange): void {
  const address = addressOf(request);
  const one = keeper.byRequest[address];
  keeper.byRequest[address] = undefined;
  if (one === undefined) {
    settle(exchange, 0, 0);
    return;
  }
  const { status } = ngx;
  const route = keeper.routes[one.route];
  if (!one.answered && !one.ended && (status === 502 || status === 504) && route !== undefined) {
    podFailed(route, one.pod);
  }
  endHeld(one);
  if (!one.answered) {
    settle(exchange, 0, 0);
    return;
  }
  const answered = storedNumber(ngx.var.body_bytes_sent ?? false, 0);
  if (status !== 101) {
    settle(exchange, 0, answered);
    return;
  }
  // nginx counts what it sent to the pod with the head of the request, which is about as long as the one it got.
  const sent = storedNumber(ofLastPod("upstream_bytes_sent") ?? false, 0);
  const passed = Math.max(sent - storedNumber(ngx.var.request_length ?? false, 0), 0);
  // All bytes count as the client's: those would be expected of the next request only if its own length were unknown.
  settle(exchange, passed + answered, 0);
}
