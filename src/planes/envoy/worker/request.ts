/** Reads from the request who pays and how long its body is. */
import { UNKNOWN_LENGTH } from "../../../core/cost.js";
import type { IdentityClaims } from "../../../core/identity.js";
import { wholeNumber } from "../../../core/platform.js";
import { type Cache, keep, newCache } from "../../lua/cache.js";
import { luaString } from "../../lua/library.js";
import { type AttributeReader, clientOf, isTrusted } from "../../lua/limit-matches.js";
import { lib, resultText, state } from "../module-api.js";
import { envoy } from "../module-state.js";
import { sha1Hex } from "./sha1.js";

const REQUEST = 0;
/** `source.address`: address and port of the client. */
const SOURCE_ADDRESS = 24;

/** Reused for every request: valid until the request waits for anything. */
const head = {
  claims: {} as IdentityClaims,
  method: "",
  /** As `estimate` expects it. */
  contentLength: 0,
};

/** Empty without one. Of a repeated header the first value. */
export function header(name: string): string {
  return lib.tollgate_header(state, REQUEST, name, name.length, 0) > 0 ? resultText() : "";
}

function headerCount(name: string): number {
  return lib.tollgate_header(state, REQUEST, name, name.length, 0);
}

/** The value of a header that was sent once; its count, up to 2, is in `read.count`. */
function single(name: string): string {
  read.count = lib.tollgate_header(state, REQUEST, name, name.length, 0);
  return read.count === 1 ? resultText() : "";
}

const read = { count: 0 };

/** What `readHead` has read. */
export function currentHead() {
  return head;
}

export function readHead(endOfStream: boolean) {
  const { appHeader, userHeader, apiKeyHeader } = envoy.options.identity;
  const { claims } = head;
  claims.hopTrusted = isTrustedPeer();
  claims.appHeader = single(appHeader);
  claims.appHeaderCount = read.count;
  claims.userHeader = single(userHeader);
  claims.userHeaderCount = read.count;
  const key = single(apiKeyHeader);
  claims.apiKeyApp = key === "" ? "" : appOfKey(key);
  head.method = header(":method");
  const length = header("content-length");
  // Envoy rejects requests with an invalid or repeated length.
  if (length !== "") head.contentLength = lengthOf(length);
  else head.contentLength = endOfStream ? 0 : UNKNOWN_LENGTH;
  return head;
}

export function isTrustedPeer(): boolean {
  if (envoy.options.trustedNetworks.length === 0) return false;
  return isTrusted(peerAddress());
}

const addresses: Cache<string> = newCache();

/** The address of the client without its port, which differs for each connection. */
export function peerAddress(): string {
  if (lib.tollgate_attribute(state, SOURCE_ADDRESS) === 0) return "";
  const address = resultText();
  return addresses.values[address] ?? keep(addresses, address, withoutPort(address));
}

/** `1.2.3.4:80` or `[::1]:80`. */
function withoutPort(address: string): string {
  return luaString.match(address, "^%[(.*)%]:%d+$") ?? luaString.match(address, "^([^:]*):%d+$") ?? address;
}

/** Replaces what the client says about itself by what is known, before the request is passed on. */
export function hideClaims(app: string): void {
  const { forward, appHeader, userHeader } = envoy.options.identity;
  const { hopTrusted, appHeaderCount, appHeader: named, userHeaderCount } = head.claims;
  if (!forward) {
    if (appHeaderCount > 0) removeHeader(appHeader);
  } else if (appHeaderCount !== 1 || named !== app) setHeader(appHeader, app);
  if (userHeaderCount > 0 && !(forward && hopTrusted)) removeHeader(userHeader);
  if (hopTrusted) return;
  // The sender is not trusted, so its forwarding headers are not either. Envoy adds X-Forwarded-Host.
  setHeader("x-forwarded-for", peerAddress());
  removeHeader("x-forwarded-host");
  removeHeader("forwarded");
}

function setHeader(name: string, value: string): void {
  lib.tollgate_set_header(state, REQUEST, name, name.length, value, value.length);
}

function removeHeader(name: string): void {
  lib.tollgate_remove_header(state, REQUEST, name, name.length);
}

/** The name of the route, from its metadata; undefined without one. */
export function routeName(): string | undefined {
  const key = "route";
  return lib.tollgate_route_text(state, key, key.length) === 1 ? resultText() : undefined;
}

/** Of the current request, before it waits. */
export function currentClient(this: void): string {
  return clientOf(peerAddress(), forwardedFor(), isTrustedPeer());
}

/** For limits: the current request, until it waits for anything. */
export const attributeReader: AttributeReader = {
  host: () => header(":authority"),
  path: () => header(":path"),
  // Envoy has replaced the path by the one by which it routes.
  routedPath: () => undefined,
  peer: peerAddress,
  forwardedFor,
  headerCount,
  header: single,
  client: currentClient,
  digest: sha1Hex,
};

/** Without the address of the peer, which Envoy has appended: for a local client it is that of the machine. */
export function forwardedFor(this: void): string {
  const list = header("x-forwarded-for");
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
  return keep(apps, key, envoy.options.identity.apiKeys[sha1Hex(key)] ?? "");
}

const lengths: Cache<number> = newCache();

function lengthOf(text: string): number {
  return lengths.values[text] ?? keep(lengths, text, wholeNumber(text));
}
