/** Validates the head of a request and extracts what routing, admission and forwarding need. */
import type { Limits } from "../../../config/options/proxy.js";
import { UNKNOWN_LENGTH } from "../../../core/cost.js";
import { canonicalPath, forwardedPath, isAcceptedPath, type PathRules } from "../../../core/path.js";
import { isPlainPath } from "../../../core/platform.js";
import type { GatewayError } from "../../../core/refusals.js";
import type { ClientRequest } from "./client-messages.js";
import { kindOf, namedByConnection, withoutNamed } from "./header-kinds.js";

export type RequestHead = Exclude<ReturnType<typeof readHead>, GatewayError>;

export interface HeadRules {
  limits: Limits;
  paths: PathRules;
  /** These headers are read for admission, and not passed on. */
  isIdentityHeader(name: string): boolean;
}

/** Returns an error if the request is invalid. `trusted`: the client's X-Forwarded-* and Forwarded headers are used. */
export function readHead(request: ClientRequest, { limits, paths, isIdentityHeader }: HeadRules, trusted: boolean) {
  const raw = request.rawHeaders;
  if (raw.length > limits.headerCount * 2) return "headers_too_large";
  const headers: string[] = [];
  let host: string | undefined;
  let contentLength: string | undefined;
  let transferEncoding: string | undefined;
  let named: string[] | undefined;
  let forwardedFor = "";
  let forwardedProto = "";
  let forwardedHost = "";
  let upgrade = false;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!;
    const value = raw[at + 1]!;
    switch (kindOf(name)) {
      case "end-to-end":
        if (!isIdentityHeader(name)) headers.push(name, value);
        break;
      case "forwarded":
        if (trusted) headers.push(name, value);
        break;
      case "host":
        if (host !== undefined) return "invalid_host";
        host = value;
        break;
      case "content-length":
        if (contentLength !== undefined) return "invalid_length";
        contentLength = value;
        break;
      case "transfer-encoding":
        if (transferEncoding !== undefined) return "malformed_request";
        transferEncoding = value;
        break;
      case "connection":
        named = namedByConnection(value, named);
        break;
      case "upgrade":
        upgrade = true;
        break;
      case "te":
        // The only value that also applies to the next hop.
        if (/(^|,)\s*trailers\s*(,|$)/i.test(value)) headers.push("te", "trailers");
        break;
      case "x-forwarded-for":
        if (trusted) forwardedFor = forwardedFor === "" ? value : `${forwardedFor}, ${value}`;
        break;
      case "x-forwarded-proto":
        if (trusted) forwardedProto = value;
        break;
      case "x-forwarded-host":
        if (trusted) forwardedHost = value;
        break;
    }
  }
  // The parser also accepts HTTP/0.9 and 2.0.
  if (request.httpVersion !== "1.1" && request.httpVersion !== "1.0") return "malformed_request";
  const http10 = request.httpVersionMinor === 0;
  if (host === undefined) {
    if (!http10) return "invalid_host";
    host = "";
  } else if (!isHost(host)) return "invalid_host";

  let length = 0;
  if (transferEncoding !== undefined) {
    // With any of these, two servers could disagree about the end of the request.
    if (contentLength !== undefined || http10) return "malformed_request";
    const coding = transferEncoding.toLowerCase();
    if (coding !== "chunked") return /,\s*chunked$/.test(coding) ? "unsupported_encoding" : "malformed_request";
    length = UNKNOWN_LENGTH;
  } else if (contentLength !== undefined) {
    if (!/^[0-9]{1,16}$/.test(contentLength)) return "invalid_length";
    length = Number(contentLength);
    if (!Number.isSafeInteger(length)) return "invalid_length";
    if (length > limits.bodyBytes) return "body_too_large";
    headers.push("content-length", contentLength);
  }

  let target = request.url ?? "";
  if (target.charCodeAt(0) !== 47) {
    const absolute = /^https?:\/\/([^/?#@]+)((?:[/?].*)?)$/i.exec(target);
    if (absolute === null || !isHost(absolute[1]!)) return "invalid_path";
    // RFC 9112, 3.2.2: the host of an absolute target takes precedence over Host.
    host = absolute[1]!;
    target = absolute[2]!.startsWith("/") ? absolute[2]! : `/${absolute[2]}`;
  }
  if (target.includes("#")) return "invalid_path";
  const query = target.indexOf("?");
  let path = query < 0 ? target : target.slice(0, query);
  if (!isPlainPath(path)) {
    if (!isAcceptedPath(path, paths)) return "invalid_path";
    target = forwardedPath(path) + (query < 0 ? "" : target.slice(query));
    path = canonicalPath(path);
  }

  return {
    /** Path and query, as they go to the backend. */
    target,
    /** The path by which the request is routed, without the query. */
    path,
    /** Empty if an HTTP/1.0 client sent none. */
    host,
    /** The declared length of the body; 0: no body, UNKNOWN_LENGTH: chunked. */
    contentLength: length,
    /** Headers for the backend as a flat list, without those that this hop adds. */
    headers: named === undefined ? headers : withoutNamed(headers, named, setByThisHop),
    /** X-Forwarded-* of a trusted client; otherwise empty. */
    forwardedFor,
    forwardedProto,
    forwardedHost,
    /** The client requests another protocol. */
    // RFC 9110, 7.8: ignored from an HTTP/1.0 client.
    upgrade: upgrade && !http10 && named?.includes("upgrade") === true,
  };
}

function isHost(host: string): boolean {
  return /^[A-Za-z0-9._~%:[\]-]{1,255}$/.test(host) && !host.includes("..");
}

const setByThisHop = { te: "", "content-length": "" };

/** All values of a header of the raw list, in order. `name` in lower case. */
export function valuesOf(raw: string[], name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const candidate = raw[at]!;
    if (candidate.length === name.length && (candidate === name || candidate.toLowerCase() === name)) {
      values.push(raw[at + 1]!);
    }
  }
  return values;
}
