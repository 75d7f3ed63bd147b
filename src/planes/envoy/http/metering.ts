/** Bodies of unknown length are counted as they pass, and the exchange is settled when both its bodies are known. */
import { OK } from "../../../core/codes.js";
import { pcall } from "../../lua/library.js";
import type { Chunk, Handle } from "../envoy-api.js";
import { worker } from "../state.js";
import { type Exchange, reuse } from "./exchanges.js";
import { settle } from "./limiter.js";

const NAMESPACE = "tollgate";

/** After the request has been let in; returns when its body has ended, at once where there is none. */
export function meterRequest(handle: Handle, exchange: Exchange): void {
  exchange.requestBytes = 0;
  exchange.receiving = true;
  const [unread, next] = pcall(chunksOf, handle);
  if (!unread) {
    // The request waited for the service, and some of its body has passed meanwhile: nobody here knows how much.
    leaveToAccessLog(handle, exchange);
    return;
  }
  let chunk = next();
  if (chunk !== undefined) leaveToAccessLog(handle, exchange);
  while (chunk !== undefined) {
    exchange.requestBytes = exchange.requestBytes + chunk.length();
    chunk = next();
  }
  exchange.receiving = false;
  if (exchange.responseBytes >= 0) finish(handle, exchange);
}

function chunksOf(this: void, handle: Handle): (this: void) => Chunk | undefined {
  return handle.bodyChunks();
}

/** Returns when the response's body has ended. */
export function meterResponse(handle: Handle, exchange: Exchange): void {
  const next = handle.bodyChunks();
  leaveToAccessLog(handle, exchange);
  let bytes = 0;
  let chunk = next();
  while (chunk !== undefined) {
    bytes = bytes + chunk.length();
    chunk = next();
  }
  answered(handle, exchange, bytes);
}

/** Should a body never end, nobody is told here: the access log tells how far it came. */
function leaveToAccessLog(handle: Handle, exchange: Exchange): void {
  if (exchange.marked || exchange.code !== OK || !worker.settings.settleByAccessLog) return;
  exchange.marked = true;
  const metadata = handle.streamInfo().dynamicMetadata();
  metadata.set(NAMESPACE, "app", exchange.app.limits.id);
  metadata.set(NAMESPACE, "paid", exchange.cost);
  metadata.set(NAMESPACE, "method", exchange.method);
  metadata.set(NAMESPACE, "settle", true);
}

/** The length of the response is known. A request that is still coming in is waited for. */
export function answered(handle: Handle, exchange: Exchange, bytes: number): void {
  exchange.responseBytes = bytes;
  if (!exchange.receiving) finish(handle, exchange);
}

function finish(handle: Handle, exchange: Exchange): void {
  if (exchange.marked) handle.streamInfo().dynamicMetadata().set(NAMESPACE, "settle", false);
  settle(exchange);
  reuse(exchange);
}
