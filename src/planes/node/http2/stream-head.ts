/** Translates the head of an HTTP/2 request to that of HTTP/1.1, so that the same rules apply to both. */

/** A request as node:http would present it. */
export interface StreamHead {
  method: string;
  url: string;
  rawHeaders: string[];
  /** The Expect header. */
  expect: string | undefined;
  /** The size that the head would have in HTTP/1.1. */
  bytes: number;
}

/**
 * nghttp2 has checked that the pseudo headers are complete and come first, that names are in lower case, and that there are no
 * headers for a connection. `raw`: a flat list of names and values. `hasBody`: the stream does not end with the head.
 */
export function readStreamHead(raw: readonly string[], hasBody: boolean): StreamHead {
  const rawHeaders: string[] = [];
  let [method, url, bytes] = ["", "", 0];
  let authority: string | undefined;
  let cookies: string | undefined;
  let expect: string | undefined;
  let hasLength = false;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!;
    const value = raw[at + 1]!;
    bytes += name.length + value.length + ": \r\n".length;
    switch (name) {
      case ":method":
        method = value;
        continue;
      case ":path":
        // An absolute URL would replace the host.
        url = value.startsWith("/") ? value : "";
        continue;
      case ":scheme":
        continue;
      case ":authority":
        authority = value;
        rawHeaders.push("host", value);
        continue;
      case "host":
        // Another Host than :authority is rejected as a second Host would be.
        if (value.toLowerCase() === authority?.toLowerCase()) continue;
        break;
      case "cookie":
        // RFC 9113, 8.2.3: clients may split it; HTTP/1.1 has one.
        cookies = cookies === undefined ? value : `${cookies}; ${value}`;
        continue;
      case "content-length":
        hasLength = true;
        break;
      case "expect":
        expect = value;
        break;
    }
    rawHeaders.push(name, value);
  }
  if (cookies !== undefined) rawHeaders.push("cookie", cookies);
  if (hasBody && !hasLength) rawHeaders.push("transfer-encoding", "chunked");
  return { method, url, rawHeaders, expect, bytes };
}

/** Headers of a response or trailers for node:http2. HTTP/2 has no headers for a connection. */
export function streamHeaders(fields: Iterable<readonly [string, string]>): Record<string, string | string[]> {
  const headers = Object.create(null) as Record<string, string | string[]>;
  for (const [anyCase, value] of fields) {
    const name = anyCase.toLowerCase();
    if (ofConnection.has(name)) continue;
    const before = headers[name];
    if (before === undefined) headers[name] = value;
    // node:http2 throws for a second value of these. Clients use the first.
    else if (single.has(name)) continue;
    else if (typeof before === "string") headers[name] = [before, value];
    else before.push(value);
  }
  return headers;
}

export function* pairsOf(flat: readonly string[]): Generator<[string, string]> {
  for (let at = 0; at + 1 < flat.length; at += 2) yield [flat[at]!, flat[at + 1]!];
}

const ofConnection = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

/** Those that node:http2 requires to be single in a response. */
const single = new Set([
  "access-control-allow-credentials",
  "access-control-max-age",
  "access-control-request-method",
  "age",
  "authorization",
  "content-encoding",
  "content-language",
  "content-length",
  "content-location",
  "content-md5",
  "content-range",
  "content-type",
  "date",
  "dnt",
  "etag",
  "expires",
  "from",
  "host",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "last-modified",
  "location",
  "max-forwards",
  "proxy-authorization",
  "range",
  "referer",
  "retry-after",
  "tk",
  "upgrade-insecure-requests",
  "user-agent",
  "x-content-type-options",
]);
