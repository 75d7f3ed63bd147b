/** Sets the headers of a decision, and sends refusals. */
import { INVALID_COST, reportedCost } from "../../../core/cost.js";
import { wholeText } from "../../../core/platform.js";
import { decisionRefusal, type GatewayError, gatewayRefusal, type Refusal } from "../../../core/refusals.js";
import { type HeaderOptions, type HeaderWriter, headerWriter } from "../../../core/response-headers.js";
import { showExchange, showUnidentified } from "../../lua/client-decision.js";
import type { Exchange } from "../../lua/http/exchanges.js";
import { nowMs } from "../clock.js";
import { type Ngx, ngx } from "../ngx.js";

type ResponseHeaders = Ngx["header"];

function setHeader(this: void, target: ResponseHeaders, name: string, value: string): void {
  target[name] = value;
}

const headers = {} as { write: HeaderWriter<ResponseHeaders> };

export function prepareHeaders(options: HeaderOptions): void {
  headers.write = headerWriter(options, setHeader);
}

export function showDecision(exchange: Exchange): void {
  showExchange(headers.write, ngx.header, exchange, nowMs());
}

/** Reads the cost that the backend states, and removes it from the response. */
export function readCost(exchange: Exchange): void {
  const name = exchange.route.costHeader;
  if (name === undefined) return;
  const value = ngx.header[name];
  if (value === undefined) return;
  // A header that was sent twice has a list of values.
  exchange.reportedCost = typeof value === "string" ? reportedCost(value) : INVALID_COST;
  ngx.header[name] = undefined;
}

/** Ends the request. */
export function refuse(exchange: Exchange): void {
  sendRefusal(decisionRefusal(showExchange(headers.write, ngx.header, exchange, nowMs())));
}

/** For a request whose app is unknown or whose identity is invalid. Ends the request. */
export function refuseUnidentified(code: string): void {
  sendRefusal(decisionRefusal(showUnidentified(headers.write, ngx.header, code)));
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
