/** Reads from the request who pays and how long its body is. */
import { UNKNOWN_LENGTH } from "../../../core/cost.js";
import { hostName } from "../../../core/host.js";
import type { IdentityClaims } from "../../../core/identity.js";
import { forwardedPath, isAcceptedPath } from "../../../core/path.js";
import { cutText, encodeForPath, findText, isPlainPath, wholeNumber } from "../../../core/platform.js";
import type { GatewayError } from "../../../core/refusals.js";
import { type Cache, keep, newCache } from "../../lua/cache.js";
import { luaString, luaTable, rawGet } from "../../lua/library.js";
import type { AttributeReader } from "../../lua/limit-matches.js";
import { ngx } from "../ngx.js";
import { currentClient } from "../sockets/client-socket.js";
import { nginx } from "../state.js";

/** Reused for every request: valid until the request waits for anything. */
const head = {
  claims: {} as IdentityClaims,
  /** As `estimate` expects it. */
  contentLength: 0,
  /** The request has more headers than the configuration allows. */
  tooManyHeaders: false,
  /** As nginx returns them. */
  headers: {} as RequestHeaders,
};

type RequestHeaders = { readonly [name: string]: string | string[] };

/** A header that was sent more than once has a list of values. */
type HeaderValue = string | string[] | undefined;

const FORWARDED = "forwarded";

function textOf(value: HeaderValue): string {
  return typeof value === "string" ? value : "";
}

/** 2 stands for any larger number. */
function countOf(value: HeaderValue): number {
  if (value === undefined) return 0;
  return typeof value === "string" ? 1 : 2;
}

export function readHead() {
  const { identity, headerCount } = nginx.options;
  const { claims } = head;
  const [headers, problem] = ngx.req.get_headers(headerCount);
  // Not `headers[name]`, which looks a missing name up a second time.
  const app = rawGet(headers, identity.appHeader);
  const user = rawGet(headers, identity.userHeader);
  const key = rawGet(headers, identity.apiKeyHeader);
  claims.hopTrusted = ngx.var.tollgate_trusted === "1";
  claims.appHeader = textOf(app);
  claims.appHeaderCount = countOf(app);
  claims.userHeader = textOf(user);
  claims.userHeaderCount = countOf(user);
  claims.apiKeyApp = typeof key === "string" ? appOfKey(key) : "";
  head.contentLength = bodyLength(rawGet(headers, "content-length"), rawGet(headers, "transfer-encoding"));
  head.tooManyHeaders = problem !== undefined;
  head.headers = headers;
  return head;
}

/**
 * Why the target of the current request cannot be accepted; empty if it can. What nginx has resolved to find the location is
 * passed on resolved: a backend must not read another path.
 */
export function targetProblem(): GatewayError | "" {
  const target = ngx.var.request_uri ?? "/";
  if (plainTargets.values[target] !== true && !isResolvedTarget(target)) return "invalid_path";
  // nginx routes by the host of an absolute target, but passes Host on.
  const host = rawGet(head.headers, "host");
  const isSame = host === undefined || host === ngx.var.host || hostName(textOf(host)) === ngx.var.host;
  return isSame ? "" : "invalid_host";
}

/** Targets with nothing to resolve. */
const plainTargets: Cache<boolean> = newCache();
/** Longer ones are not remembered. */
const LONGEST_TARGET = 128;

/** False: the target is invalid. */
function isResolvedTarget(target: string): boolean {
  if (findText(target, "#", 0) >= 0) return false;
  const query = findText(target, "?", 0);
  const path = query < 0 ? target : cutText(target, 0, query);
  if (isPlainPath(path)) {
    if (target.length <= LONGEST_TARGET) keep(plainTargets, target, true);
    return true;
  }
  if (!isAcceptedPath(path, nginx.options.paths)) return false;
  if (forwardedPath(path) !== path) ngx.req.set_uri(ngx.var.uri ?? "/", false, true);
  return true;
}

/** Replaces what the client says about itself by what is known, before the request is passed on. */
export function hideClaims(app: string): void {
  const { identity, hiddenHeaders } = nginx.options;
  const { claims, headers } = head;
  for (const name of hiddenHeaders) if (rawGet(headers, name) !== undefined) ngx.req.clear_header(name);
  const { forward, appHeader, userHeader } = identity;
  if (!forward) {
    if (claims.appHeaderCount > 0) ngx.req.clear_header(appHeader);
  } else if (claims.appHeaderCount !== 1 || claims.appHeader !== app) ngx.req.set_header(appHeader, app);
  if (claims.userHeaderCount > 0 && !(forward && claims.hopTrusted)) ngx.req.clear_header(userHeader);
  if (!claims.hopTrusted && rawGet(headers, FORWARDED) !== undefined) ngx.req.clear_header(FORWARDED);
}

/** nginx itself rejects a Content-Length that is invalid or sent twice. */
function bodyLength(contentLength: HeaderValue, transferEncoding: HeaderValue): number {
  if (transferEncoding !== undefined) return UNKNOWN_LENGTH;
  return typeof contentLength === "string" ? wholeNumber(contentLength) : 0;
}

/** Reads a chunked body, which nginx would buffer later anyway, and returns its length, or UNKNOWN_LENGTH. */
export function readBody(): number {
  ngx.req.read_body();
  const length = ngx.var.content_length;
  return length === undefined ? UNKNOWN_LENGTH : wholeNumber(length);
}

/** For limits: the current request, until it waits for anything. */
export const attributeReader: AttributeReader = {
  // That of an absolute target takes precedence over the header.
  host: () => ngx.var.host ?? "",
  path: () => ngx.var.request_uri ?? "/",
  routedPath: () => encodeForPath(ngx.var.uri ?? "/"),
  peer: () => ngx.var.remote_addr ?? "",
  forwardedFor: () => joined(rawGet(head.headers, "x-forwarded-for")),
  headerCount: (name) => countOf(rawGet(head.headers, name)),
  header: (name) => textOf(rawGet(head.headers, name)),
  client: currentClient,
  digest: (text) => hexOf(ngx.sha1_bin(text)),
};

function joined(value: HeaderValue): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : luaTable.concat(value, ",");
}

function hexOf(bytes: string): string {
  let text = "";
  for (let i = 1; i <= bytes.length; i++) text = text + luaString.format("%02x", luaString.byte(bytes, i));
  return text;
}

function appOfKey(key: string): string {
  return nginx.options.identity.apiKeys[ngx.encode_base64(ngx.sha1_bin(key))] ?? "";
}
