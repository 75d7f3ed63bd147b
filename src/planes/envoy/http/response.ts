/** A decision as HTTP shows it, in the words of src/limiter/response.ts: headers on every response, and refusals. */
import { OK } from "../../../core/codes.js";
import { wholeText } from "../../../core/platform.js";
import { toText } from "../../lua/library.js";
import { headRefusalBody, refusalBody, refusalStatus, retryAfterSeconds } from "../../lua/refusal.js";
import { remainingOf, resetSecondsOf, showLimit } from "../../lua/shown-limit.js";
import { type Handle, type Headers, type HeaderTable, luaBit } from "../envoy-api.js";
import type { SocketRefusal } from "../sockets/socket.js";
import type { EnvoyAccount } from "../state.js";
import { type Exchange, rememberNone } from "./exchanges.js";

/** Texts of small numbers, which are most of them. */
const texts: { [value: number]: string | undefined } = {};
const MOST_TEXTS = 20000;

function numberText(value: number): string {
  const known = texts[value];
  if (known !== undefined) return known;
  // Whole numbers that fit a machine's are written much faster as such.
  const text = value >= 0 && value <= 2147483647 ? toText(luaBit.tobit(value)) : wholeText(value);
  if (value >= 0 && value < MOST_TEXTS) texts[value] = text;
  return text;
}

function rateHeader(app: EnvoyAccount, remaining: number, remainingText: string): string {
  const resetSeconds = resetSecondsOf(app, remaining);
  return `${app.rateHeaderStart + remainingText};t=${numberText(resetSeconds)}`;
}

/** On the response of a backend, in the place of whatever it says of limits itself. */
export function showDecision(headers: Headers, exchange: Exchange): void {
  const { app, code } = exchange;
  if (app.sync.limit !== app.shownLimit) showLimit(app, app.sync.limit);
  const remaining = remainingOf(app, exchange.balance);
  const remainingText = numberText(remaining);
  headers.replace("x-ratelimit-cost", numberText(exchange.cost));
  headers.replace("x-ratelimit-limit", app.limitText);
  headers.replace("x-ratelimit-remaining", remainingText);
  headers.replace("ratelimit-limits", app.policyHeader);
  headers.replace("ratelimit", rateHeader(app, remaining, remainingText));
  if (app.limits.dryRun) {
    headers.replace("x-ratelimit-dry-run", code === OK ? "pass" : `would-refuse; reason=${code}`);
  }
}

/** Names nothing that the client said, but for the app it was found to be. Never returns. */
function refuseWith(
  handle: Handle,
  headers: HeaderTable,
  code: string,
  app: string,
  retryAfter: number,
  remaining: number,
  limit: number,
): void {
  const status = refusalStatus(code);
  headers[":status"] = numberText(status);
  headers["content-type"] = "application/json";
  if (retryAfter > 0) headers["retry-after"] = numberText(retryAfter);
  rememberNone(handle);
  handle.respond(headers, refusalBody(code, app, retryAfter, remaining, limit));
}

/** For an answer in the place of the backend's. */
function decisionHeaders(exchange: Exchange): HeaderTable {
  const { app } = exchange;
  const { limit } = app.sync;
  if (limit !== app.shownLimit) showLimit(app, limit);
  const remaining = remainingOf(app, exchange.balance);
  const remainingText = numberText(remaining);
  return {
    "x-ratelimit-cost": numberText(exchange.cost),
    "x-ratelimit-limit": app.limitText,
    "x-ratelimit-remaining": remainingText,
    "ratelimit-limits": app.policyHeader,
    ratelimit: rateHeader(app, remaining, remainingText),
  };
}

export function refuse(handle: Handle, exchange: Exchange): void {
  const { app, code } = exchange;
  const retryAfter = retryAfterSeconds(exchange.retryAfterMs);
  const remaining = remainingOf(app, exchange.balance);
  refuseWith(handle, decisionHeaders(exchange), code, app.limits.id, retryAfter, remaining, app.sync.limit);
}

/** Of a connection that gets no slot, though it was paid for; or that no route takes, before it was. Never returns. */
export function refuseUpgrade(handle: Handle, refusal: SocketRefusal, exchange: Exchange | undefined): void {
  const headers = exchange === undefined ? ({} as HeaderTable) : decisionHeaders(exchange);
  headers[":status"] = numberText(refusal.status);
  headers["content-type"] = "application/json";
  if (refusal.retryAfter > 0) headers["retry-after"] = numberText(refusal.retryAfter);
  rememberNone(handle);
  handle.respond(headers, refusal.body);
}

/** Of a request whose app is not known or not told. */
export function refuseUnidentified(handle: Handle, code: string): void {
  const headers = { "x-ratelimit-cost": "0", "x-ratelimit-limit": "0", "x-ratelimit-remaining": "0" };
  refuseWith(handle, headers, code, "", 0, 0, 0);
}

/** Of a request whose head is no good: what follows it is not read as another one. */
export function refuseHead(handle: Handle, status: number, error: string, reason: string): void {
  rememberNone(handle);
  const headers = { ":status": numberText(status), "content-type": "application/json", connection: "close" };
  handle.respond(headers, headRefusalBody(error, reason));
}
