/** Reads from the request who pays and how long its body is, with as few calls of Envoy as possible. */
import { UNKNOWN_LENGTH } from "../../../core/cost.js";
import type { IdentityClaims } from "../../../core/identity.js";
import { wholeNumber } from "../../../core/platform.js";
import { type Cache, keep, newCache } from "../../lua/cache.js";
import { luaString } from "../../lua/library.js";
import type { AttributeReader } from "../../lua/limit-matches.js";
import type { Handle, Headers } from "../envoy-api.js";
import { worker } from "../state.js";
import { sha1Hex } from "./sha1.js";
import { ipOf } from "./trusted-hops.js";

const claims = {} as IdentityClaims;

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

/** Replaces what the client says about itself by what is known. If backends get no identity, Envoy removes both headers. */
export function showIdentity(headers: Headers, app: string): void {
  const { appHeader, userHeader } = worker.options.identity;
  if (claims.appHeaderCount !== 1 || claims.appHeader !== app) headers.replace(appHeader, app);
  if (claims.userHeaderCount > 0 && !claims.hopTrusted) headers.remove(userHeader);
}

/** The request whose limits are being determined. */
const current = {} as { handle: Handle; headers: Headers };

/** Before `matchRequest`. */
export function readAttributesOf(handle: Handle, headers: Headers): void {
  current.handle = handle;
  current.headers = headers;
}

export function addressOf(handle: Handle, headers: Headers): string {
  const { addressHeader } = worker.options;
  const written = addressHeader === "" ? undefined : headers.get(addressHeader);
  return written ?? handle.streamInfo().downstreamRemoteAddress();
}

export const attributeReader: AttributeReader = {
  host: () => current.headers.get(":authority") ?? "",
  path: () => current.headers.get(":path") ?? "/",
  // Envoy has replaced the path by the one by which it routes.
  routedPath: () => undefined,
  peer: () => ipOf(addressOf(current.handle, current.headers)),
  forwardedFor: () => withoutLast(current.headers.get("x-forwarded-for") ?? ""),
  headerCount: (name) => current.headers.getNumValues(name),
  header: (name) => current.headers.get(name) ?? "",
  // The filter does not name its clients.
  client: () => "",
  digest: sha1Hex,
};

/** Without the address of the peer, which Envoy has appended: for a local client it is that of the machine. */
function withoutLast(list: string): string {
  const known = lists.values[list];
  if (known !== undefined) return known;
  const others = luaString.match(list, "^(.*),[^,]*$") ?? "";
  return list.length > LONGEST_REMEMBERED ? others : keep(lists, list, others);
}

const lists: Cache<string> = newCache();
const LONGEST_REMEMBERED = 64;

const apps: Cache<string> = newCache();
/** Longer keys are not configured. */
const MAX_KEY_LENGTH = 4096;

/** The app of an API key, of which the options contain only the SHA-1; empty for an unknown key. */
function appOfKey(key: string): string {
  const known = apps.values[key];
  if (known !== undefined) return known;
  if (key.length > MAX_KEY_LENGTH) return "";
  return keep(apps, key, worker.options.identity.apiKeys[sha1Hex(key)] ?? "");
}

const lengths: Cache<number> = newCache();

/** The value of a Content-Length. */
export function lengthOf(text: string): number {
  return lengths.values[text] ?? keep(lengths, text, wholeNumber(text));
}

/**
 * The length for `estimate` without a Content-Length. Envoy does not distinguish a body of unknown length from no body, so
 * one is expected if the method usually has one. In both cases the bytes are counted.
 */
export function expectedLength(method: string): number {
  return method === "GET" || method === "HEAD" || method === "OPTIONS" ? 0 : UNKNOWN_LENGTH;
}
