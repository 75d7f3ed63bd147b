/** Counts bodies of unknown length as they pass; the exchange is settled when both lengths are known. */
import { OK } from "../../../core/codes.js";
import { nodeInEpoch } from "../../../core/keys.js";
import { wholeText } from "../../../core/platform.js";
import { actualCost, learnFrom } from "../../../engine/settle.js";
import { pcall } from "../../lua/library.js";
import type { Chunk, Handle } from "../envoy-api.js";
import { worker } from "../state.js";
import { type Exchange, reuse } from "./exchanges.js";
import { settle, settleLimits } from "./limiter.js";

const NAMESPACE = "tollgate";

/** After admission; returns when the request body has ended. */
export function meterRequest(handle: Handle, exchange: Exchange): void {
  exchange.requestBytes = 0;
  exchange.receiving = true;
  const [unread, next] = pcall(chunksOf, handle);
  if (!unread) {
    // The request waited for the service, and an unknown part of its body has passed meanwhile.
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

/** Returns when the response body has ended. */
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

/** Envoy does not report an aborted body here: the service settles such exchanges from the access log. */
function leaveToAccessLog(handle: Handle, exchange: Exchange): void {
  const code = exchange.limited ? exchange.appCode : exchange.code;
  if (exchange.marked || code !== OK || !worker.options.settleByAccessLog) return;
  exchange.marked = true;
  const metadata = handle.streamInfo().dynamicMetadata();
  metadata.set(NAMESPACE, "app", exchange.account.limits.id);
  metadata.set(NAMESPACE, "paid", exchange.cost);
  metadata.set(NAMESPACE, "method", exchange.method);
  metadata.set(NAMESPACE, "node", nodeInEpoch(worker.name, wholeText(exchange.account.node.epoch)));
  const { route } = exchange.profile;
  if (route !== undefined) metadata.set(NAMESPACE, "route", route);
  metadata.set(NAMESPACE, "settle", true);
}

/** If the service settles the exchange, it uses the cost that the backend has stated. */
export function markCost(handle: Handle, { marked, reportedCost }: Exchange): void {
  if (marked && reportedCost >= 0) handle.streamInfo().dynamicMetadata().set(NAMESPACE, "cost", reportedCost);
}

/** The length of the response is known. The exchange is finished when the request body has ended, too. */
export function answered(handle: Handle, exchange: Exchange, bytes: number): void {
  exchange.responseBytes = bytes;
  if (!exchange.receiving) finish(handle, exchange);
}

function finish(handle: Handle, exchange: Exchange): void {
  const { requestBytes, responseBytes } = exchange;
  if (exchange.paidByService && actualCost(exchange, requestBytes, responseBytes) < exchange.cost) {
    leaveToAccessLog(handle, exchange);
    if (exchange.marked) {
      learnFrom(exchange.account, exchange, requestBytes, responseBytes);
      settleLimits(exchange);
      markCost(handle, exchange);
      reuse(exchange);
      return;
    }
  }
  if (exchange.marked) handle.streamInfo().dynamicMetadata().set(NAMESPACE, "settle", false);
  settle(exchange);
  reuse(exchange);
}
