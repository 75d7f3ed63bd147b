/** Reads from the request who pays and how long its body is. */
import { UNKNOWN_LENGTH } from "../../../core/cost.js";
import type { IdentityClaims } from "../../../core/identity.js";
import { wholeNumber } from "../../../core/platform.js";
import { rawGet } from "../../lua/library.js";
import { ngx } from "../ngx.js";
import { worker } from "../state.js";

/** Reused for every request: valid until the request waits for anything. */
const head = {
  claims: {} as IdentityClaims,
  /** As `estimate` expects it. */
  contentLength: 0,
  /** The request has more headers than the configuration allows. */
  tooManyHeaders: false,
};

/** A header that was sent more than once has a list of values. */
type HeaderValue = string | string[] | undefined;

function textOf(value: HeaderValue): string {
  return typeof value === "string" ? value : "";
}

/** 2 stands for any larger number. */
function countOf(value: HeaderValue): number {
  if (value === undefined) return 0;
  return typeof value === "string" ? 1 : 2;
}

export function readHead() {
  const { identity, headerCount } = worker.options;
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
  return head;
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

function appOfKey(key: string): string {
  return worker.options.identity.apiKeys[ngx.encode_base64(ngx.sha1_bin(key))] ?? "";
}
