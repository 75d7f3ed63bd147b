/** Reads from the request who pays and how long its body is, with as few calls of Envoy as possible. */
import { UNKNOWN_LENGTH } from "../../../core/cost.js";
import type { IdentityClaims } from "../../../core/identity.js";
import { wholeNumber } from "../../../core/platform.js";
import type { Headers } from "../envoy-api.js";
import { worker } from "../state.js";
import { appOfKey } from "./api-keys.js";

const claims: IdentityClaims = {
  hopTrusted: false,
  appHeader: "",
  appHeaderCount: 0,
  userHeader: "",
  userHeaderCount: 0,
  apiKeyApp: "",
};

/** The result is reused for every request: use it before the request waits for anything. */
export function readClaims(headers: Headers, hopTrusted: boolean): IdentityClaims {
  const { appHeader, userHeader, apiKeyHeader } = worker.options.identity;
  claims.hopTrusted = hopTrusted;
  claims.appHeaderCount = headers.getNumValues(appHeader);
  claims.appHeader = headers.get(appHeader) ?? "";
  claims.userHeaderCount = headers.getNumValues(userHeader);
  claims.userHeader = headers.get(userHeader) ?? "";
  claims.apiKeyApp = "";
  // The values of a key that was sent twice are joined, and match no key.
  const key = headers.get(apiKeyHeader);
  if (key !== undefined) claims.apiKeyApp = appOfKey(key);
  return claims;
}

/** Known Content-Length values: a table lookup is faster than parsing. */
const lengths: { known: { [text: string]: number | undefined }; count: number } = { known: {}, count: 0 };
const MOST_LENGTHS = 10000;

export function lengthOf(text: string): number {
  const known = lengths.known[text];
  if (known !== undefined) return known;
  if (lengths.count >= MOST_LENGTHS) {
    lengths.known = {};
    lengths.count = 0;
  }
  const length = wholeNumber(text);
  lengths.known[text] = length;
  lengths.count = lengths.count + 1;
  return length;
}

/**
 * The length for `estimate` without a Content-Length. Envoy does not distinguish a body of unknown length from no body, so
 * one is expected if the method usually has one. In both cases the bytes are counted.
 */
export function expectedLength(method: string): number {
  return method === "GET" || method === "HEAD" || method === "OPTIONS" ? 0 : UNKNOWN_LENGTH;
}
