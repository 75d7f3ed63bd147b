/** Sets the headers of a decision on the backend's response, and sends refusals. */
import { wholeText } from "../../../core/platform.js";
import {
  ALL_HEADERS,
  decisionRefusal,
  type GatewayError,
  gatewayRefusal,
  headerWriter,
  type Refusal,
} from "../../../core/refusals.js";
import { showExchange, showUnidentified } from "../../lua/client-decision.js";
import type { Handle, Headers, HeaderTable } from "../envoy-api.js";
import { type Exchange, rememberNone } from "./exchanges.js";

function replaceHeader(this: void, headers: Headers, name: string, value: string): void {
  headers.replace(name, value);
}

function setField(this: void, headers: HeaderTable, name: string, value: string): void {
  headers[name] = value;
}

const replaceHeaders = headerWriter(ALL_HEADERS, replaceHeader);
const setFields = headerWriter(ALL_HEADERS, setField);

/** On the response of a backend; replaces its own rate limit headers. */
export function showDecision(headers: Headers, exchange: Exchange): void {
  showExchange(replaceHeaders, headers, exchange);
}

/** Never returns. */
function send(handle: Handle, headers: HeaderTable, { status, body, retryAfter }: Refusal): void {
  headers[":status"] = wholeText(status);
  headers["content-type"] = "application/json";
  if (retryAfter > 0) headers["Retry-After"] = wholeText(retryAfter);
  rememberNone(handle);
  handle.respond(headers, body);
}

export function refuse(handle: Handle, exchange: Exchange): void {
  const headers: HeaderTable = {};
  send(handle, headers, decisionRefusal(showExchange(setFields, headers, exchange)));
}

/** For an upgrade without a slot: `exchange` is the paid request, undefined if no route accepts the upgrade. Never returns. */
export function refuseUpgrade(handle: Handle, refusal: Refusal, exchange: Exchange | undefined): void {
  const headers: HeaderTable = {};
  if (exchange !== undefined) showExchange(setFields, headers, exchange);
  send(handle, headers, refusal);
}

/** For a request whose app is unknown or whose identity is invalid. */
export function refuseUnidentified(handle: Handle, code: string): void {
  const headers: HeaderTable = {};
  send(handle, headers, decisionRefusal(showUnidentified(setFields, headers, code)));
}

/** For a request that cannot be handled: the connection is closed, so that the rest is not read as another request. */
export function refuseHead(handle: Handle, reason: GatewayError): void {
  send(handle, { connection: "close" }, gatewayRefusal(reason));
}
