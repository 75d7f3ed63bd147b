/** Sets the headers of a decision, and sends refusals. */
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
import { type Ngx, ngx } from "../ngx.js";
import type { Exchange } from "./exchanges.js";

type ResponseHeaders = Ngx["header"];

function setHeader(this: void, headers: ResponseHeaders, name: string, value: string): void {
  headers[name] = value;
}

const writeHeaders = headerWriter(ALL_HEADERS, setHeader);

export function showDecision(exchange: Exchange): void {
  showExchange(writeHeaders, ngx.header, exchange);
}

/** Ends the request. */
export function refuse(exchange: Exchange): void {
  sendRefusal(decisionRefusal(showExchange(writeHeaders, ngx.header, exchange)));
}

/** For a request whose app is unknown or whose identity is invalid. Ends the request. */
export function refuseUnidentified(code: string): void {
  sendRefusal(decisionRefusal(showUnidentified(writeHeaders, ngx.header, code)));
}

/** For a request that cannot be handled. The connection stays open: nginx knows where the request ends. */
export function refuseHead(reason: GatewayError): void {
  sendRefusal(gatewayRefusal(reason));
}

/** Ends the request. */
export function sendRefusal({ status, body, retryAfter }: Refusal): void {
  ngx.status = status;
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Content-Length"] = body.length;
  if (retryAfter > 0) ngx.header["Retry-After"] = wholeText(retryAfter);
  ngx.print(body);
  ngx.exit(status);
}
