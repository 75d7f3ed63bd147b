/** Sets the headers of a decision on the backend's response, and sends refusals. */
import { wholeText } from "../../../core/platform.js";
import { decisionRefusal, type GatewayError, gatewayRefusal, type Refusal } from "../../../core/refusals.js";
import { type HeaderOptions, type HeaderWriter, headerWriter } from "../../../core/response-headers.js";
import { showExchange, showUnidentified } from "../../lua/client-decision.js";
import { nowMs } from "../clock.js";
import type { Handle, Headers, HeaderTable } from "../envoy-api.js";
import { type Exchange, rememberNone } from "./exchanges.js";

function replaceHeader(this: void, target: Headers, name: string, value: string): void {
  target.replace(name, value);
}

function setField(this: void, target: HeaderTable, name: string, value: string): void {
  target[name] = value;
}

const headers = {} as { replace: HeaderWriter<Headers>; set: HeaderWriter<HeaderTable> };

export function prepareHeaders(options: HeaderOptions): void {
  headers.replace = headerWriter(options, replaceHeader);
  headers.set = headerWriter(options, setField);
}

/** On the response of a backend; replaces its own rate limit headers. */
export function showDecision(response: Headers, exchange: Exchange): void {
  showExchange(headers.replace, response, exchange, nowMs());
}

/** Never returns. */
function send(handle: Handle, own: HeaderTable, { status, body, retryAfter }: Refusal): void {
  own[":status"] = wholeText(status);
  own["content-type"] = "application/json";
  if (retryAfter > 0) own["Retry-After"] = wholeText(retryAfter);
  rememberNone(handle);
  handle.respond(own, body);
}

export function refuse(handle: Handle, exchange: Exchange): void {
  const own: HeaderTable = {};
  send(handle, own, decisionRefusal(showExchange(headers.set, own, exchange, nowMs())));
}

/** For an upgrade without a slot: `exchange` is the paid request, undefined if no route accepts the upgrade. Never returns. */
export function refuseUpgrade(handle: Handle, refusal: Refusal, exchange: Exchange | undefined): void {
  const own: HeaderTable = {};
  if (exchange !== undefined) showExchange(headers.set, own, exchange, nowMs());
  send(handle, own, refusal);
}

/** For a request whose app is unknown or whose identity is invalid. */
export function refuseUnidentified(handle: Handle, code: string): void {
  const own: HeaderTable = {};
  send(handle, own, decisionRefusal(showUnidentified(headers.set, own, code)));
}

/** For a request that cannot be handled: the connection is closed, so that the rest is not read as another request. */
export function refuseHead(handle: Handle, reason: GatewayError): void {
  send(handle, { connection: "close" }, gatewayRefusal(reason));
}
