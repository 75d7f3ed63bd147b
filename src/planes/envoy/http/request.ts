/** What a request says of itself: who pays, and how long its body is. As few calls of Envoy as that takes. */
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

/** All that `identify` wants to know. Used at once: the table is the same for all. */
export function readClaims(headers: Headers, hopTrusted: boolean): IdentityClaims {
  const { appHeader, userHeader, apiKeyHeader } = worker.settings.identity;
  claims.hopTrusted = hopTrusted;
  claims.appHeaderCount = headers.getNumValues(appHeader);
  claims.appHeader = headers.get(appHeader) ?? "";
  claims.userHeaderCount = headers.getNumValues(userHeader);
  claims.userHeader = headers.get(userHeader) ?? "";
  claims.apiKeyApp = "";
  // Of a key that came twice, too, the values come as one text, which is nobody's key.
  const key = headers.get(apiKeyHeader);
  if (key !== undefined) claims.apiKeyApp = appOfKey(key);
  return claims;
}

/** Lengths that came before, which most do: a look at each digit is dearer than one into a table. */
const lengths: { known: { [text: string]: number | undefined }; count: number } = { known: {}, count: 0 };
const MOST_LENGTHS = 10000;

/** The number that a Content-Length tells. */
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
 * As `estimate` wants it, of a request without Content-Length. Envoy does not tell a body of unknown length from none at all:
 * one is expected where the method usually has one. Either way it is counted as it passes.
 */
export function expectedLength(method: string): number {
  return method === "GET" || method === "HEAD" || method === "OPTIONS" ? 0 : UNKNOWN_LENGTH;
}
