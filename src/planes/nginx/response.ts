/** A decision as HTTP shows it, in the words of src/limiter/response.ts: headers on every response, and refusals. */
import { INVALID_ARGUMENT, INVALID_IDENTITY, OK, STORE_UNAVAILABLE, UNKNOWN_APP } from "../../core/codes.js";
import { wholeText } from "../../core/host.js";
import type { Exchange } from "./exchanges.js";
import { base, ffi, ngx, type RequestPointer, toInteger, toText } from "./ngx.js";
import type { App } from "./state.js";

/** Texts of small numbers, which are most of them. */
const texts: { [value: number]: string | undefined } = {};
const MOST_TEXTS = 10000;

/** Whole numbers that fit a machine's are written much faster as such. */
function balanceText(value: number): string {
  return value >= 0 && value <= 2147483647 ? toText(toInteger(value)) : wholeText(value);
}

function numberText(value: number): string {
  const known = texts[value];
  if (known !== undefined) return known;
  const text = wholeText(value);
  if (value >= 0 && value < MOST_TEXTS) texts[value] = text;
  return text;
}

function rateOf(app: App): number {
  return Math.max(app.policy.guaranteed, 1e-6);
}

/** What stays the same as long as the limit does. */
function showLimit(app: App, limit: number): void {
  const { id } = app.policy;
  const windowSeconds = Math.max(Math.ceil(limit / rateOf(app)), 1);
  app.shownLimit = limit;
  app.limitText = wholeText(limit);
  app.policyHeader = `"${id}";q=${app.limitText};w=${wholeText(windowSeconds)}`;
  app.rateHeaderStart = `"${id}";r=`;
}

function remainingOf(exchange: Exchange): number {
  const { talk } = exchange.app;
  return Math.min(Math.max(exchange.balance, 0) + talk.remaining, talk.limit);
}

/**
 * Adds a header that is not there yet. `ngx.header` would look through those that are: for five of them that is a quarter
 * of what the whole decision costs.
 */
function addHeader(request: RequestPointer, name: string, value: string): void {
  ffi.C.ngx_http_lua_ffi_set_resp_header(request, name, name.length, 0, value, value.length, undefined, 0, 0, problem);
}

const problem = base.get_errmsg_ptr();

export function showDecision(request: RequestPointer, exchange: Exchange): void {
  const { app, code } = exchange;
  const { limit } = app.talk;
  if (limit !== app.shownLimit) showLimit(app, limit);
  const remaining = remainingOf(exchange);
  const remainingText = balanceText(remaining);
  const resetSeconds = Math.ceil(Math.max(limit - remaining, 0) / rateOf(app));
  addHeader(request, "X-RateLimit-Cost", numberText(exchange.cost));
  addHeader(request, "X-RateLimit-Limit", app.limitText);
  addHeader(request, "X-RateLimit-Remaining", remainingText);
  addHeader(request, "RateLimit-Policy", app.policyHeader);
  addHeader(request, "RateLimit", `${app.rateHeaderStart + remainingText};t=${numberText(resetSeconds)}`);
  if (app.policy.dryRun && exchange.allowed) {
    addHeader(request, "X-RateLimit-Dry-Run", code === OK ? "pass" : `would-refuse; reason=${code}`);
  }
}

export function retryAfterSeconds(retryAfterMs: number): number {
  return retryAfterMs <= 0 ? 0 : Math.max(Math.ceil(retryAfterMs / 1000), 1);
}

function statusOf(code: string): number {
  if (code === STORE_UNAVAILABLE) return 503;
  if (code === INVALID_ARGUMENT || code === INVALID_IDENTITY) return 400;
  return code === UNKNOWN_APP ? 403 : 429;
}

function errorOf(status: number): string {
  if (status === 503) return "service_unavailable";
  if (status === 400) return "bad_request";
  return status === 403 ? "forbidden" : "rate_limit_exceeded";
}

/** Names nothing that the client said, but for the app it was found to be. Ends the request. */
function refuseWith(code: string, app: string, retryAfter: number, remaining: number, limit: number): void {
  const status = statusOf(code);
  ngx.status = status;
  const { header } = ngx;
  header["Content-Type"] = "application/json";
  if (retryAfter > 0) header["Retry-After"] = numberText(retryAfter);
  const body =
    '{"error":"' +
    errorOf(status) +
    '","reason":"' +
    code +
    '","app_id":"' +
    app +
    '","retry_after":' +
    wholeText(retryAfter) +
    ',"remaining":' +
    wholeText(remaining) +
    ',"limit":' +
    wholeText(limit) +
    "}";
  header["Content-Length"] = body.length;
  ngx.print(body);
  ngx.exit(status);
}

export function refuse(exchange: Exchange): void {
  const { app, code } = exchange;
  const retryAfter = retryAfterSeconds(exchange.retryAfterMs);
  refuseWith(code, app.policy.id, retryAfter, remainingOf(exchange), app.talk.limit);
}

/** Of a request whose app is not known or not told. */
export function refuseUnidentified(code: string): void {
  const { header } = ngx;
  header["X-RateLimit-Cost"] = "0";
  header["X-RateLimit-Limit"] = "0";
  header["X-RateLimit-Remaining"] = "0";
  refuseWith(code, "", 0, 0, 0);
}

/** Of a request whose head is no good: what follows it is not read as another one. */
export function refuseHead(status: number, error: string, reason: string): void {
  const body = `{"error":"${error}","reason":"${reason}"}\n`;
  ngx.status = status;
  ngx.header["Content-Type"] = "application/json";
  ngx.header.Connection = "close";
  ngx.header["Content-Length"] = body.length;
  ngx.print(body);
  ngx.exit(status);
}
