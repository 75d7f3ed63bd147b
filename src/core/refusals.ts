/** Status, body and Retry-After of refusals. Used by all planes. */
import {
  DENIED,
  INVALID_ARGUMENT,
  INVALID_IDENTITY,
  INVALID_TOKEN,
  OVERLOADED,
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_CLIENT_LIMIT_EXCEEDED,
  SLOT_CLIENT_RATE_LIMITED,
  SLOT_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
  SLOT_TOTAL_LIMIT_EXCEEDED,
  STORE_UNAVAILABLE,
  TOKEN_KEYS_UNAVAILABLE,
  UNKNOWN_APP,
} from "./codes.js";
import { wholeText } from "./platform.js";
import { type ClientDecision, isNamed, type LimitedDecision, retryAfterSeconds } from "./response-headers.js";

export interface Refusal {
  status: number;
  /** JSON. Contains nothing sent by the client except the id of the app it was identified as. */
  body: string;
  /** Seconds for Retry-After; 0: the header is not sent. */
  retryAfter: number;
}

function refusalStatus(code: string): ErrorStatus {
  if (code === STORE_UNAVAILABLE || code === TOKEN_KEYS_UNAVAILABLE) return 503;
  if (code === INVALID_TOKEN) return 401;
  if (code === INVALID_ARGUMENT || code === INVALID_IDENTITY) return 400;
  return code === UNKNOWN_APP || code === DENIED ? 403 : 429;
}

/** The `error` field of a refusal with this status. Codes explain further; some statuses have several codes. */
const ERRORS = {
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

type ErrorStatus = keyof typeof ERRORS;

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
  const body = refusalBody(ERRORS[status], { code, app, retryAfter, remaining, limit, limitName });
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
  /** The request is not valid HTTP, or has a header that must not occur twice. */
  malformed_request: 400,
  /** Content-Length is invalid, occurs twice, or contradicts Transfer-Encoding. */
  invalid_length: 400,
  /** Host is missing, invalid or occurs twice. */
  invalid_host: 400,
  /** The path is invalid, or spelled in a way that the routes do not accept. */
  invalid_path: 400,
  /** No route matches host and path. */
  no_route: 404,
  /** The client took too long to send the headers. */
  headers_timeout: 408,
  /** The client sent the body too slowly. */
  body_timeout: 408,
  /** The body is larger than the route allows. */
  body_too_large: 413,
  /** `Expect` has a value other than `100-continue`. */
  unknown_expectation: 417,
  /** The client address has too many running requests in this process. */
  client_concurrency: 429,
  /** The app has too many running requests in this process. */
  app_concurrency: 429,
  /** The headers are too large or too many. */
  headers_too_large: 431,
  /** A defect of the gateway; the log has the details. */
  internal_error: 500,
  /** Transfer-Encoding has a value other than `chunked`. */
  unsupported_encoding: 501,
  /** The method is not supported, for example CONNECT. */
  unsupported_method: 501,
  /** The upgrade is not to a WebSocket. */
  unsupported_upgrade: 501,
  /** No connection to the backend could be opened. */
  upstream_unreachable: 502,
  /** The backend closed the connection or sent an invalid response. */
  upstream_broken: 502,
  /** The upstream has no healthy target. */
  no_target: 503,
  /** Too many requests wait for a connection to the upstream. */
  upstream_queue_full: 503,
  /** No connection to the upstream became free in time. */
  upstream_queue_timeout: 503,
  /** The gateway is stopping. */
  draining: 503,
  /** The process is short of CPU time, memory or files and refuses new work. */
  overloaded: 503,
  /** The connection slot was lost before the backend accepted the WebSocket. */
  slot_lost: 503,
  /** nginx or Envoy: an error in the data plane while the policy does not admit requests. */
  plane_error: 503,
  /** The backend did not accept the connection in time. */
  upstream_connect_timeout: 504,
  /** The backend did not respond in time. */
  upstream_timeout: 504,
} satisfies { [reason: string]: ErrorStatus };

export type GatewayError = keyof typeof GATEWAY_ERRORS;

/** For clients that are refused because of overload. */
export const OVERLOAD_RETRY_SECONDS = 1;

/** A request that cannot be handled, whatever its app. */
export function gatewayRefusal(reason: GatewayError): Refusal {
  const status: ErrorStatus = GATEWAY_ERRORS[reason];
  const retryAfter = reason === OVERLOADED ? OVERLOAD_RETRY_SECONDS : 0;
  return { status, body: `{"error":"${ERRORS[status]}","reason":"${reason}"}\n`, retryAfter };
}

export interface ConnectionLimits {
  maxPerPod: number;
  maxTotal: number;
  maxPerApp: number;
  maxPerClient?: number | undefined;
  ratePerSecond: number;
  burstPerClient?: number | undefined;
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
  const status = isConnectionLimit(code) || isConnectionRate(code) ? 429 : 503;
  const error = isConnectionLimit(code) ? "connection_limit_exceeded" : ERRORS[status];
  const limit = limits === undefined ? 0 : reachedLimit(code, limits);
  return { status, body: refusalBody(error, { code, app, retryAfter, remaining: 0, limit }), retryAfter };
}

/** Whether a connection that is refused with this code is admitted in a dry run. It has no slot then. */
export function isLiftedByDryRun(code: string): boolean {
  return isConnectionLimit(code) || isConnectionRate(code) || code === STORE_UNAVAILABLE;
}

function isConnectionLimit(code: string): boolean {
  if (code === SLOT_APP_LIMIT_EXCEEDED || code === SLOT_CLIENT_LIMIT_EXCEEDED) return true;
  return code === SLOT_LIMIT_EXCEEDED || code === SLOT_TOTAL_LIMIT_EXCEEDED;
}

function isConnectionRate(code: string): boolean {
  return code === SLOT_RATE_LIMITED || code === SLOT_CLIENT_RATE_LIMITED;
}

/** The limit that caused a refusal with this code. */
export function reachedLimit(code: string, limits: ConnectionLimits): number {
  if (code === SLOT_TOTAL_LIMIT_EXCEEDED) return limits.maxTotal;
  if (code === SLOT_APP_LIMIT_EXCEEDED) return limits.maxPerApp;
  if (code === SLOT_CLIENT_LIMIT_EXCEEDED) return limits.maxPerClient ?? 0;
  if (code === SLOT_CLIENT_RATE_LIMITED) return limits.burstPerClient ?? 0;
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
