/** Sets the headers of a decision on the backend's response, and prepares refusals, which the module sends. */
import { INVALID_COST, reportedCost } from "../../../core/cost.js";
import { wholeText } from "../../../core/platform.js";
import { decisionRefusal, type GatewayError, gatewayRefusal, type Refusal } from "../../../core/refusals.js";
import { type HeaderOptions, type HeaderWriter, headerWriter } from "../../../core/response-headers.js";
import { showExchange, showUnidentified } from "../../lua/client-decision.js";
import { nowMs } from "../../lua/host.js";
import type { Exchange } from "../../lua/http/exchanges.js";
import { lib, resultText, state } from "../module-api.js";

const RESPONSE = 2;

type Target = typeof state;

/** On the response of a backend; replaces its own header. */
function replaceHeader(this: void, target: Target, name: string, value: string): void {
  lib.tollgate_set_header(target, RESPONSE, name, name.length, value, value.length);
}

function addToReply(this: void, target: Target, name: string, value: string): void {
  lib.tollgate_reply_header(target, name, name.length, value, value.length);
}

const headers = {} as { replace: HeaderWriter<Target>; reply: HeaderWriter<Target> };

export function prepareResponses(options: HeaderOptions): void {
  headers.replace = headerWriter(options, replaceHeader);
  headers.reply = headerWriter(options, addToReply);
  const { status, body } = gatewayRefusal("plane_error");
  lib.tollgate_error_reply(state, status, body, body.length);
}

export function showDecision(exchange: Exchange): void {
  showExchange(headers.replace, state, exchange, nowMs());
}

/** Reads the cost that the backend states, and removes it from the response. */
export function readCost(exchange: Exchange): void {
  const name = exchange.route.costHeader;
  if (name === undefined) return;
  const count = lib.tollgate_header(state, RESPONSE, name, name.length, 0);
  if (count === 0) return;
  exchange.reportedCost = count === 1 ? reportedCost(resultText()) : INVALID_COST;
  lib.tollgate_remove_header(state, RESPONSE, name, name.length);
}

export function refuse(exchange: Exchange): void {
  lib.tollgate_reply(state);
  finish(decisionRefusal(showExchange(headers.reply, state, exchange, nowMs())));
}

/** For an upgrade that was paid for, without a slot. */
export function refuseUpgrade(exchange: Exchange, refusal: Refusal): void {
  lib.tollgate_reply(state);
  showExchange(headers.reply, state, exchange, nowMs());
  if (refusal.retryAfter > 0) addToReply(state, "retry-after", wholeText(refusal.retryAfter));
  finish(refusal);
}

/** The pod of an upgrade could not be reached: another attempt is placed on another one. */
export function askToRetry(): void {
  replaceHeader(state, "retry-after", "1");
}

/** Empty without one. */
export function responseHeader(name: string): string {
  return lib.tollgate_header(state, RESPONSE, name, name.length, 0) > 0 ? resultText() : "";
}

export function hasResponseLength(): boolean {
  const name = "content-length";
  return lib.tollgate_header(state, RESPONSE, name, name.length, 0) > 0;
}

/** For a request whose app is unknown or whose identity is invalid. */
export function refuseUnidentified(code: string): void {
  lib.tollgate_reply(state);
  finish(decisionRefusal(showUnidentified(headers.reply, state, code)));
}

/** For a request that cannot be handled: the connection is closed, so that the rest is not read as another request. */
export function refuseHead(reason: GatewayError): void {
  lib.tollgate_reply(state);
  addToReply(state, "connection", "close");
  const refusal = gatewayRefusal(reason);
  if (refusal.retryAfter > 0) addToReply(state, "retry-after", wholeText(refusal.retryAfter));
  finish(refusal);
}

/** The headers of a decision include Retry-After. */
function finish({ status, body }: Refusal): void {
  addToReply(state, "content-type", "application/json");
  lib.tollgate_reply_body(state, status, body, body.length);
}
