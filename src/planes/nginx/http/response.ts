/** A decision as HTTP shows it, in the words of src/limiter/response.ts: headers on every response, and refusals. */
import { OK } from "../../../core/codes.js";
import { wholeText } from "../../../core/platform.js";
import { headRefusalBody, refusalBody, refusalStatus, retryAfterSeconds } from "../../lua/refusal.js";
import { remainingOf, resetSecondsOf, showLimit } from "../../lua/shown-limit.js";
import { ngx, type RequestPointer } from "../ngx.js";
import type { NginxAccount } from "../state.js";
import type { Exchange } from "./exchanges.js";
import {
  after,
  copyText,
  NUMBER_BYTES,
  prepareDigits,
  SMALL,
  smallLength,
  smallText,
  WRITABLE,
  writeNumber,
  writeSmall,
} from "./memory.js";
import {
  addHeader,
  addHeaders,
  allocate,
  findHeaders,
  headersAreKnown,
  headersOf,
  prepareHeaders,
  setValue,
} from "./response-headers.js";

/** In the order in which they stand. */
const COST = 0;
const LIMIT = 1;
const REMAINING = 2;
const POLICY = 3;
const RATE = 4;
const NAMES = ["X-RateLimit-Cost", "X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy", "RateLimit"];

export function prepareShowing(): void {
  prepareDigits();
  prepareHeaders(NAMES);
}

/** The headers are the last that is done for a request: see `writeNumber` for why there is nothing to decide after them. */
export function showDecision(request: RequestPointer, exchange: Exchange): void {
  const { app, code } = exchange;
  const { limit } = app.sync;
  if (app.limits.dryRun && exchange.allowed) {
    addHeader(request, "X-RateLimit-Dry-Run", code === OK ? "pass" : `would-refuse; reason=${code}`);
  }
  if (limit !== app.shownLimit) showLimit(app, limit);
  const remaining = remainingOf(app, exchange.balance);
  const resetSeconds = resetSecondsOf(app, remaining);
  if (headersAreKnown() && limit < WRITABLE && resetSeconds < SMALL && exchange.cost < SMALL) {
    writeDecision(request, app, exchange.cost, remaining, resetSeconds);
  } else {
    setDecision(request, app, exchange.cost, remaining, resetSeconds);
  }
}

function setDecision(
  request: RequestPointer,
  app: NginxAccount,
  cost: number,
  remaining: number,
  resetSeconds: number,
): void {
  const rate = `${app.rateHeaderStart + wholeText(remaining)};t=${wholeText(resetSeconds)}`;
  addHeader(request, NAMES[COST]!, wholeText(cost));
  addHeader(request, NAMES[LIMIT]!, app.limitText);
  addHeader(request, NAMES[REMAINING]!, wholeText(remaining));
  addHeader(request, NAMES[POLICY]!, app.policyHeader);
  addHeader(request, NAMES[RATE]!, rate);
  findHeaders(request, NAMES[RATE]!, rate);
}

const RESET = ";t=";

/** The same, in one piece of the request's memory: the limit stands within the limits, what remains within the rate. */
function writeDecision(
  request: RequestPointer,
  app: NginxAccount,
  cost: number,
  remaining: number,
  resetSeconds: number,
): void {
  const list = headersOf(request);
  const { policyHeader: limits, rateHeaderStart: start, limitText } = app;
  const memory = allocate(list, limits.length + start.length + RESET.length + 2 * NUMBER_BYTES);
  if (memory === undefined) return;
  copyText(memory, limits);
  const rateAt = after(memory, limits.length);
  copyText(rateAt, start);
  const remainingAt = after(rateAt, start.length);
  const digits = writeNumber(remainingAt, remaining);
  const resetAt = after(remainingAt, digits);
  copyText(resetAt, RESET);
  writeSmall(after(resetAt, RESET.length), resetSeconds);
  const headers = addHeaders(list);
  if (headers === undefined) {
    setDecision(request, app, cost, remaining, resetSeconds);
    return;
  }
  setValue(headers, COST, smallText(cost), smallLength(cost));
  setValue(headers, LIMIT, after(memory, start.length), limitText.length);
  setValue(headers, REMAINING, remainingAt, digits);
  setValue(headers, POLICY, memory, limits.length);
  setValue(headers, RATE, rateAt, start.length + digits + RESET.length + smallLength(resetSeconds));
}

/** Names nothing that the client said, but for the app it was found to be. Ends the request. */
function refuseWith(code: string, app: string, retryAfter: number, remaining: number, limit: number): void {
  const status = refusalStatus(code);
  ngx.status = status;
  const { header } = ngx;
  header["Content-Type"] = "application/json";
  if (retryAfter > 0) header["Retry-After"] = wholeText(retryAfter);
  const body = refusalBody(code, app, retryAfter, remaining, limit);
  header["Content-Length"] = body.length;
  ngx.print(body);
  ngx.exit(status);
}

export function refuse(exchange: Exchange): void {
  const { app, code } = exchange;
  const retryAfter = retryAfterSeconds(exchange.retryAfterMs);
  refuseWith(code, app.limits.id, retryAfter, remainingOf(app, exchange.balance), app.sync.limit);
}

/** Of a request whose app is not known or not told. */
export function refuseUnidentified(code: string): void {
  const { header } = ngx;
  header["X-RateLimit-Cost"] = "0";
  header["X-RateLimit-Limit"] = "0";
  header["X-RateLimit-Remaining"] = "0";
  refuseWith(code, "", 0, 0, 0);
}

/** Of a request whose head is no good. The connection may go on: nginx knows where the request ends. */
export function refuseHead(status: number, error: string, reason: string): void {
  const body = headRefusalBody(error, reason);
  ngx.status = status;
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Content-Length"] = body.length;
  ngx.print(body);
  ngx.exit(status);
}
