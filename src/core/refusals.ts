/** What a client sees of a decision: response headers, and the status, body and Retry-After of a refusal. Used by all planes. */
import {
  DENIED,
  INVALID_ARGUMENT,
  INVALID_IDENTITY,
  INVALID_TOKEN,
  OK,
  OVERLOADED,
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
  SLOT_TOTAL_LIMIT_EXCEEDED,
  STORE_UNAVAILABLE,
  TOKEN_KEYS_UNAVAILABLE,
  UNKNOWN_APP,
} from "./codes.js";
import { joinable, wholeText } from "./platform.js";

export interface Refusal {
  status: number;
  /** JSON. Contains nothing sent by the client except the id of the app it was identified as. */
  body: string;
  /** Seconds for Retry-After; 0: the header is not sent. */
  retryAfter: number;
}

/** The part of a decision that the client sees. */
export interface ClientDecision {
  allowed: boolean;
  /** One of core/codes.ts. On a dry run a request is allowed with the code that it would be refused with. */
  code: string;
  /** The app is on a dry run. */
  dryRun: boolean;
  /**
   * The configured app that pays; for a descriptor limit, its rule; empty if the request belongs to no app. Must need no
   * escaping in a JSON or structured field string, as app ids.
   */
  app: string;
  /** Tokens taken, or that would have been taken. */
  cost: number;
  /** Tokens left for the app, as far as this node knows. */
  remaining: number;
  /** The app's burst, reduced in an emergency. */
  limit: number;
  /** 0 if waiting does not help or is not needed. */
  retryAfterMs: number;
  /** The limit that decided; unset or empty if it was the app's. */
  limitName?: string | undefined;
}

/** A limit of a request besides that of its app. */
export interface LimitView {
  name: string;
  /** As in ClientDecision, for this limit. */
  cost: number;
  remaining: number;
  limit: number;
  /** Tokens per second. */
  rate: number;
  dryRun: boolean;
}

/** Which headers are sent with each response. Retry-After and X-RateLimit-Dry-Run are always sent where they apply. */
export interface HeaderOptions {
  /** X-RateLimit-Cost, X-RateLimit-Limit and X-RateLimit-Remaining. */
  xRateLimit: boolean;
  /** RateLimit and RateLimit-Policy. */
  ietf: boolean;
}

export const ALL_HEADERS: HeaderOptions = { xRateLimit: true, ietf: true };

export const DRY_RUN_HEADER = "X-RateLimit-Dry-Run";
const X_RATE_LIMIT_HEADERS = ["X-RateLimit-Cost", "X-RateLimit-Limit", "X-RateLimit-Remaining"];
const IETF_HEADERS = ["RateLimit", "RateLimit-Policy"];

/** Headers that a backend must not set, because responses may have them from the gateway. */
export function reservedHeaders({ xRateLimit, ietf }: HeaderOptions): string[] {
  const names = [DRY_RUN_HEADER];
  if (xRateLimit) for (const name of X_RATE_LIMIT_HEADERS) names.push(name);
  if (ietf) for (const name of IETF_HEADERS) names.push(name);
  return names;
}

/** How a plane sets a response header on its own kind of response. */
export type AddHeader<T> = (this: void, target: T, name: string, value: string) => void;

/** Adds the headers of a decision to a response. */
export type HeaderWriter<T> = (
  this: void,
  target: T,
  decision: ClientDecision,
  texts: HeaderTexts,
  resetSeconds: number,
) => void;

/** Parts of header values. */
export interface HeaderTexts {
  limitText: string;
  /** The value of RateLimit-Policy. */
  policy: string;
  /** The value of RateLimit up to the remaining tokens, after what it states about the app and other limits. */
  remainingPrefix: string;
  /** About other limits, with a comma at the end; empty without any. */
  others: string;
  /** About the app, if a limit follows; otherwise empty. */
  appPrefix: string;
  appRemaining: number;
  appReset: number;
}

/** Those that change only with the limit. Planes keep them per app and limit. */
export interface LimitTexts extends HeaderTexts {
  /** What RateLimit states about this limit, by remaining tokens: many values of a limit have the same. */
  parts: { [remaining: number]: string | undefined };
  partCount: number;
  /** The policies of this app and of the limits of its last request, in the order in which they are sent. */
  joined: string;
  joinedWith: LimitTexts[];
  joinedLast: number;
}

const LOWEST_RATE = 1e-6;
/** The index of the app among the limits of a request. */
const APP = -1;

/** The window of a policy is the time in which an empty bucket fills. */
export function limitTexts(app: string, limit: number, rate: number): LimitTexts {
  const windowSeconds = Math.max(Math.ceil(limit / Math.max(rate, LOWEST_RATE)), 1);
  const limitText = wholeText(limit);
  return {
    limitText,
    policy: `"${app}";q=${limitText};w=${wholeText(windowSeconds)}`,
    remainingPrefix: `"${app}";r=`,
    others: "",
    appPrefix: "",
    appRemaining: 0,
    appReset: 0,
    parts: {},
    partCount: 0,
    joined: "",
    joinedWith: [],
    joinedLast: APP,
  };
}

/** Seconds until the bucket is full again, as far as this node knows. */
export function resetSeconds(limit: number, remaining: number, rate: number): number {
  return Math.ceil(Math.max(limit - remaining, 0) / Math.max(rate, LOWEST_RATE));
}

export function retryAfterSeconds(retryAfterMs: number): number {
  return retryAfterMs <= 0 ? 0 : Math.max(Math.ceil(retryAfterMs / 1000), 1);
}

/**
 * The X-RateLimit headers, and RateLimit with RateLimit-Policy as in draft-ietf-httpapi-ratelimit-headers-10: the app is
 * the policy, tokens are its unit. On a dry run each response also has X-RateLimit-Dry-Run: `pass`, or `would-refuse;
 * reason=…` for a request that exceeds the limit; it has no Retry-After because nothing was refused.
 */
export function headerWriter<T>(options: HeaderOptions, add: AddHeader<T>): HeaderWriter<T> {
  const { xRateLimit, ietf } = options;
  return (target, decision, texts, reset) => {
    const remaining = wholeText(decision.remaining);
    if (xRateLimit) {
      add(target, "X-RateLimit-Cost", wholeText(decision.cost));
      add(target, "X-RateLimit-Limit", texts.limitText);
      add(target, "X-RateLimit-Remaining", remaining);
    }
    if (ietf && decision.app !== "") {
      add(target, "RateLimit-Policy", texts.policy);
      // In this order Lua joins all parts in one step.
      add(target, "RateLimit", rateLimitText(texts, remaining, reset));
    }
    if (decision.dryRun && decision.allowed) add(target, DRY_RUN_HEADER, dryRunText(decision.code));
    if (!decision.allowed && decision.retryAfterMs > 0) {
      add(target, "Retry-After", wholeText(retryAfterSeconds(decision.retryAfterMs)));
    }
  };
}

/** Each text is joined in one step: in Lua, every further one would be created and looked up. */
function rateLimitText(texts: HeaderTexts, remaining: string, reset: number): string {
  const { others, appPrefix, remainingPrefix } = texts;
  const seconds = joinable(reset);
  if (appPrefix === "") return others + (remainingPrefix + (remaining + (";t=" + seconds)));
  const appTokens = joinable(texts.appRemaining);
  const appSeconds = joinable(texts.appReset);
  return (
    appPrefix +
    (appTokens + (";t=" + (appSeconds + (", " + (others + (remainingPrefix + (remaining + (";t=" + seconds))))))))
  );
}

/** A decision with the rate of the app, and with its other limits if there are any. */
export interface LimitedDecision extends ClientDecision {
  rate: number;
  limits?: readonly LimitView[] | undefined;
}

/** What is shown of a decision about an app and other limits; first, what concerns the app. */
export interface ShownDecision extends ClientDecision {
  rate: number;
  /** Of the app. */
  texts: LimitTexts;
  /** Set by `startShowing` and `showLimit`. There may be more entries, of earlier decisions. */
  limits: LimitView[];
  textsOfLimits: LimitTexts[];
  count: number;
  /** The index of the limit that the X-RateLimit headers show. */
  last: number;
  /** Its remaining tokens. */
  least: number;
}

/** To be called when all fields about the app are set, before `showLimit` for each of the limits. */
export function startShowing(shown: ShownDecision): void {
  shown.count = 0;
  shown.last = APP;
  shown.least = shown.remaining;
}

export function showLimit(shown: ShownDecision, limit: LimitView, texts: LimitTexts): void {
  const { count } = shown;
  shown.limits[count] = limit;
  shown.textsOfLimits[count] = texts;
  shown.count = count + 1;
  shown.dryRun = shown.dryRun || limit.dryRun;
  if (shown.allowed ? limit.remaining < shown.least : limit.name === shown.limitName) {
    shown.last = count;
    shown.least = limit.remaining;
  }
}

/** Reused for every request. */
const joined: HeaderTexts = {
  limitText: "",
  policy: "",
  remainingPrefix: "",
  others: "",
  appPrefix: "",
  appRemaining: 0,
  appReset: 0,
};

/**
 * Writes the headers of an app and several limits. The IETF headers list each; the others show the limit that refused the
 * request, or the one with the fewest tokens left, which is listed last. `shown` becomes what was shown.
 */
export function writeLimits<T>(write: HeaderWriter<T>, target: T, shown: ShownDecision): void {
  const { limits, textsOfLimits, texts, count, last } = shown;
  const { joinedWith } = texts;
  let isKnown = texts.joinedLast === last && joinedWith.length === count;
  let others = "";
  for (let i = 0; i < count; i++) {
    const own = textsOfLimits[i]!;
    isKnown = isKnown && joinedWith[i] === own;
    if (i !== last) {
      const part = knownPart(own, limits[i]!);
      others = others === "" ? part : others + part;
    }
  }
  if (!isKnown) joinPolicies(shown);
  const own = last === APP ? shown : limits[last]!;
  const ownTexts = last === APP ? texts : textsOfLimits[last]!;
  joined.limitText = ownTexts.limitText;
  joined.policy = texts.joined;
  joined.remainingPrefix = ownTexts.remainingPrefix;
  joined.others = others;
  joined.appPrefix = last === APP ? "" : texts.remainingPrefix;
  joined.appRemaining = shown.remaining;
  joined.appReset = resetSeconds(shown.limit, shown.remaining, shown.rate);
  shown.cost = own.cost;
  shown.remaining = own.remaining;
  shown.limit = own.limit;
  write(target, shown, joined, resetSeconds(own.limit, own.remaining, own.rate));
}

function joinPolicies({ texts, textsOfLimits, count, last }: ShownDecision): void {
  const list: LimitTexts[] = [];
  let policies = last === APP ? "" : texts.policy + ", ";
  for (let i = 0; i < count; i++) {
    const { policy } = textsOfLimits[i]!;
    list.push(textsOfLimits[i]!);
    if (i !== last) policies = policies + (policy + ", ");
  }
  texts.joined = policies + (last === APP ? texts.policy : textsOfLimits[last]!.policy);
  texts.joinedWith = list;
  texts.joinedLast = last;
}

const MOST_PARTS = 1000;

/** As `remainingPart`. */
function knownPart(texts: LimitTexts, limit: LimitView): string {
  const { remaining } = limit;
  let part = texts.parts[remaining];
  if (part === undefined) {
    part = remainingPart(texts, limit);
    if (texts.partCount >= MOST_PARTS) {
      texts.parts = {};
      texts.partCount = 0;
    }
    texts.parts[remaining] = part;
    texts.partCount = texts.partCount + 1;
  }
  return part;
}

/** The part of RateLimit about one limit, before another one. In this order Lua joins all parts in one step. */
function remainingPart(
  { remainingPrefix }: LimitTexts,
  { limit, remaining, rate }: Pick<LimitView, "limit" | "remaining" | "rate">,
): string {
  return remainingPrefix + (joinable(remaining) + (";t=" + (joinable(resetSeconds(limit, remaining, rate)) + ", ")));
}

function isNamed(limitName: string | undefined): limitName is string {
  return limitName !== undefined && limitName !== "";
}

/** A structured field: the result if the limit were enforced, and the reason. */
export function dryRunText(code: string): string {
  return code === OK ? "pass" : `would-refuse; reason=${code}`;
}

function refusalStatus(code: string): number {
  if (code === STORE_UNAVAILABLE || code === TOKEN_KEYS_UNAVAILABLE) return 503;
  if (code === INVALID_TOKEN) return 401;
  if (code === INVALID_ARGUMENT || code === INVALID_IDENTITY) return 400;
  return code === UNKNOWN_APP || code === DENIED ? 403 : 429;
}

/** The `error` field of a refusal with this status. Codes explain further; some statuses have several codes. */
const ERRORS: { [status: number]: string | undefined } = {
  400: "bad_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  408: "request_timeout",
  413: "content_too_large",
  417: "expectation_failed",
  429: "rate_limit_exceeded",
  431: "headers_too_large",
  500: "internal_error",
  501: "not_implemented",
  502: "bad_gateway",
  503: "service_unavailable",
  504: "gateway_timeout",
};

type RefusalFields = Pick<ClientDecision, "code" | "app" | "remaining" | "limit" | "limitName"> & {
  retryAfter: number;
};

function refusalBody(error: string, { code, app, retryAfter, remaining, limit, limitName }: RefusalFields): string {
  const name = isNamed(limitName) ? `,"limit_name":"${limitName}"` : "";
  return `{"error":"${error}","reason":"${code}","app_id":"${app}","retry_after":${wholeText(retryAfter)},"remaining":${wholeText(remaining)},"limit":${numberText(limit)}${name}}\n`;
}

/** With up to three decimals, as rates may have. */
function numberText(value: number): string {
  const thousandths = Math.floor(value * 1000 + 0.5);
  const whole = Math.floor(thousandths / 1000);
  const rest = thousandths - whole * 1000;
  if (rest === 0) return wholeText(whole);
  const zeros = rest < 10 ? "00" : rest < 100 ? "0" : "";
  return `${wholeText(whole)}.${zeros}${wholeText(rest)}`;
}

/** A request that is refused by a limit, without the store, or because it belongs to no app. */
export function decisionRefusal(decision: ClientDecision): Refusal {
  const { code, app, retryAfterMs, remaining, limit, limitName } = decision;
  const status = refusalStatus(code);
  const retryAfter = retryAfterSeconds(retryAfterMs);
  const body = refusalBody(ERRORS[status]!, { code, app, retryAfter, remaining, limit, limitName });
  return { status, body, retryAfter };
}

/** Status, body and Retry-After of a refused request. If it has several limits, `remaining` and `limit` are those of the limit that refused. */
export function limitedRefusal(decision: LimitedDecision): Refusal {
  for (const { name, remaining, limit } of decision.limits ?? []) {
    if (name === decision.limitName) {
      const { code, app, allowed, dryRun, cost, retryAfterMs, limitName } = decision;
      return decisionRefusal({ allowed, code, dryRun, app, cost, remaining, limit, retryAfterMs, limitName });
    }
  }
  return decisionRefusal(decision);
}

/** The decision for a request whose identity is invalid or unknown. */
export function unidentified(code: string): ClientDecision {
  return { allowed: false, code, dryRun: false, app: "", cost: 0, remaining: 0, limit: 0, retryAfterMs: 0 };
}

/** Errors of the gateway itself: code → status. */
const GATEWAY_ERRORS = {
  malformed_request: 400,
  invalid_length: 400,
  invalid_host: 400,
  invalid_path: 400,
  no_route: 404,
  headers_timeout: 408,
  body_timeout: 408,
  body_too_large: 413,
  unknown_expectation: 417,
  client_concurrency: 429,
  app_concurrency: 429,
  headers_too_large: 431,
  internal_error: 500,
  unsupported_encoding: 501,
  unsupported_method: 501,
  unsupported_upgrade: 501,
  upstream_unreachable: 502,
  upstream_broken: 502,
  no_target: 503,
  upstream_queue_full: 503,
  upstream_queue_timeout: 503,
  draining: 503,
  overloaded: 503,
  slot_lost: 503,
  plane_error: 503,
  upstream_connect_timeout: 504,
  upstream_timeout: 504,
};

export type GatewayError = keyof typeof GATEWAY_ERRORS;

/** For clients that are refused because of overload. */
export const OVERLOAD_RETRY_SECONDS = 1;

/** A request that cannot be handled, whatever its app. */
export function gatewayRefusal(reason: GatewayError): Refusal {
  const status = GATEWAY_ERRORS[reason];
  const retryAfter = reason === OVERLOADED ? OVERLOAD_RETRY_SECONDS : 0;
  return { status, body: `{"error":"${ERRORS[status]!}","reason":"${reason}"}\n`, retryAfter };
}

export interface ConnectionLimits {
  maxPerPod: number;
  maxTotal: number;
  maxPerApp: number;
  ratePerSecond: number;
}

export interface RefusedConnection {
  /** A slot code, STORE_UNAVAILABLE or no_connections. */
  code: string;
  app: string;
  /** Undefined if the route has none. */
  limits: ConnectionLimits | undefined;
  /** Seconds, from `connectionRetryAfter`. */
  retryAfter: number;
}

/** A connection that gets no slot: 429 for a limit, 503 without the store. */
export function connectionRefusal({ code, app, limits, retryAfter }: RefusedConnection): Refusal {
  const status = isConnectionLimit(code) || code === SLOT_RATE_LIMITED ? 429 : 503;
  const error = isConnectionLimit(code) ? "connection_limit_exceeded" : ERRORS[status]!;
  const limit = limits === undefined ? 0 : reachedLimit(code, limits);
  return { status, body: refusalBody(error, { code, app, retryAfter, remaining: 0, limit }), retryAfter };
}

/** Whether a connection that is refused with this code is admitted in a dry run. It has no slot then. */
export function isLiftedByDryRun(code: string): boolean {
  return isConnectionLimit(code) || code === SLOT_RATE_LIMITED || code === STORE_UNAVAILABLE;
}

function isConnectionLimit(code: string): boolean {
  return code === SLOT_LIMIT_EXCEEDED || code === SLOT_TOTAL_LIMIT_EXCEEDED || code === SLOT_APP_LIMIT_EXCEEDED;
}

/** The limit that caused a refusal with this code. */
export function reachedLimit(code: string, limits: ConnectionLimits): number {
  if (code === SLOT_TOTAL_LIMIT_EXCEEDED) return limits.maxTotal;
  if (code === SLOT_APP_LIMIT_EXCEEDED) return limits.maxPerApp;
  if (code === SLOT_RATE_LIMITED) return limits.ratePerSecond;
  return limits.maxPerPod;
}

/** Mean wait if it is unknown when a slot will be free. */
const WAIT_FOR_SLOT_MS = 5000;
const WAIT_FOR_STORE_MS = 3000;
/** Clients refused by the connection rate are spread over this time, so that they do not all retry at once. */
const SPREAD_MS = 3000;

/** Whole seconds; never less than `retryAfterMs`. `random` is from 0 to 1, another value for each refusal. */
export function connectionRetryAfter(code: string, retryAfterMs: number, random: number): number {
  if (retryAfterMs > 0) return Math.ceil((retryAfterMs + random * SPREAD_MS) / 1000);
  const waitMs = isConnectionLimit(code) ? WAIT_FOR_SLOT_MS : WAIT_FOR_STORE_MS;
  return Math.max(Math.floor((waitMs * (0.5 + random)) / 1000 + 0.5), 1);
}
