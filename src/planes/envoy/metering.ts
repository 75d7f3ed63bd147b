/** Bodies of unknown length are counted as they pass, and the exchange is settled when both its bodies are known. */
import type { Handle } from "./envoy-api.js";
import { type Exchange, reuse } from "./exchanges.js";
import { settle } from "./limiter.js";
import { worker } from "./state.js";

const NAMESPACE = "tollgate";

/** After the request has been let in; returns when its body has ended. */
export function meterRequest(handle: Handle, exchange: Exchange): void {
  exchange.receiving = true;
  exchange.requestBytes = 0;
  const next = handle.bodyChunks();
  let chunk = next();
  while (chunk !== undefined) {
    exchange.requestBytes = exchange.requestBytes + chunk.length();
    chunk = next();
  }
  exchange.receiving = false;
  if (exchange.responseBytes >= 0) finish(exchange);
}

/** Returns when the response's body has ended. Should it never do so, the access log tells how far it came. */
export function meterResponse(handle: Handle, exchange: Exchange): void {
  const next = handle.bodyChunks();
  const marked = worker.settings.settleByAccessLog && exchange.code === "ok";
  if (marked) leaveToAccessLog(handle, exchange);
  let bytes = 0;
  let chunk = next();
  while (chunk !== undefined) {
    bytes = bytes + chunk.length();
    chunk = next();
  }
  if (marked) handle.streamInfo().dynamicMetadata().set(NAMESPACE, "settle", false);
  answered(exchange, bytes);
}

function leaveToAccessLog(handle: Handle, exchange: Exchange): void {
  const metadata = handle.streamInfo().dynamicMetadata();
  metadata.set(NAMESPACE, "app", exchange.app.policy.id);
  metadata.set(NAMESPACE, "paid", exchange.cost);
  metadata.set(NAMESPACE, "method", exchange.method);
  metadata.set(NAMESPACE, "settle", true);
}

/** The length of the response is known. A request that is still coming in is waited for. */
export function answered(exchange: Exchange, bytes: number): void {
  exchange.responseBytes = bytes;
  if (!exchange.receiving) finish(exchange);
}

function finish(exchange: Exchange): void {
  settle(exchange);
  reuse(exchange);
}
