/** Finds the limits of a request on a Lua plane. The rules are those of `descriptors`. */
import { addressGroups, clientNetwork, forwardedAddress, isInNetwork, type Network } from "../../core/address.js";
import { ANONYMOUS_USER } from "../../core/identity.js";
import { UPGRADE } from "../../engine/settle.js";
import {
  type Digest,
  findLimits,
  type LimitMatch,
  type LimitRule,
  type LimitRules,
  type MatchedLimits,
  overflowOf,
  type RecentMatches,
  type RequestAttributes,
} from "../../limit-rules/limit-rules.js";
import { type Cache, keep, newCache } from "./cache.js";

/** How a host reads a request. */
export interface AttributeReader {
  host(this: void): string;
  path(this: void): string;
  /** As in RequestAttributes. */
  routedPath(this: void): string | undefined;
  /** Of the connection. */
  peer(this: void): string;
  /** X-Forwarded-For; empty without one. Several headers are joined with commas. */
  forwardedFor(this: void): string;
  headerCount(this: void, name: string): number;
  header(this: void, name: string): string;
  /** As `clientOf` returns it. */
  client(this: void): string;
  digest: Digest;
}

interface Options {
  limits: LimitRules;
  trustedNetworks: Network[];
}

interface Prepared {
  rules: LimitRules;
  byName: { [name: string]: LimitRule | undefined };
  networks: Network[];
  reader: AttributeReader;
}

const prepared = {} as Prepared;

/** Of the current request: matching never waits, so one table is enough. */
const attributes = {} as RequestAttributes;

function headerCount(this: RequestAttributes, name: string): number {
  return prepared.reader.headerCount(name);
}

function header(this: RequestAttributes, name: string): string {
  return prepared.reader.header(name);
}

export function prepareLimits({ limits, trustedNetworks }: Options, reader: AttributeReader): void {
  prepared.rules = limits;
  prepared.byName = {};
  prepared.networks = trustedNetworks;
  prepared.reader = reader;
  for (const rule of limits.rules) {
    prepared.byName[rule.name] = rule;
    rule.recent = recentMatches();
  }
  attributes.headerCount = headerCount;
  attributes.header = header;
}

function recentMatches(): RecentMatches {
  const matches: Cache<LimitMatch> = newCache();
  return {
    get: (values) => matches.values[values],
    set(this: void, values, match) {
      keep(matches, values, match);
    },
  };
}

export function hasLimits(): boolean {
  return prepared.rules.rules.length > 0;
}

export function limitRules(): LimitRule[] {
  return prepared.rules.rules;
}

export function ruleOfName(name: string): LimitRule | undefined {
  return prepared.byName[name];
}

/** The bucket for values of the current request's client for which there is no room. */
export function overflowBucket(limit: string): string {
  return overflowOf(limit, prepared.reader.client(), prepared.reader.digest);
}

/** Who sends the current request. */
export interface Sender {
  app: string;
  /** Empty without one. */
  user: string;
  hopTrusted: boolean;
}

/** Finds the limits that apply to the current request. */
export function matchRequest(found: MatchedLimits, { app, user, hopTrusted }: Sender, method: string): void {
  const { reader, rules } = prepared;
  const { uses } = rules;
  attributes.app = app;
  attributes.user = hopTrusted && user !== "" ? user : ANONYMOUS_USER;
  // Only a GET can be upgraded.
  attributes.method = method === UPGRADE ? "GET" : method;
  attributes.host = uses.host ? reader.host() : "";
  attributes.path = uses.path ? reader.path() : "/";
  attributes.routedPath = uses.path ? reader.routedPath() : undefined;
  attributes.address = uses.address ? addressOf(hopTrusted) : "";
  findLimits(found, rules, attributes, reader.digest);
}

function addressOf(hopTrusted: boolean): string {
  const { reader } = prepared;
  const forwardedFor = hopTrusted ? reader.forwardedFor() : "";
  if (forwardedFor === "") return reader.peer();
  const known = addresses.values[forwardedFor];
  if (known !== undefined) return known;
  const address = forwardedAddress(forwardedFor, isTrusted);
  return forwardedFor.length > LONGEST_REMEMBERED ? address : keep(addresses, forwardedFor, address);
}

/**
 * The client as its connections are counted, from `clientNetwork`; empty if it is unknown, because a trusted hop does not name it.
 * @param peer the address that sent the request
 */
export function clientOf(peer: string, forwardedFor: string, hopTrusted: boolean): string {
  if (!hopTrusted) return clientNetwork(peer);
  return forwardedFor === "" ? "" : clientNetwork(forwardedAddress(forwardedFor, isTrusted));
}

/** By X-Forwarded-For. */
const addresses: Cache<string> = newCache();
const LONGEST_REMEMBERED = 64;

const trust: Cache<boolean> = newCache();

/** Whether the address belongs to `identity.trusted_hops`. */
export function isTrusted(this: void, address: string): boolean {
  const known = trust.values[address];
  if (known !== undefined) return known;
  const groups = addressGroups(address);
  let trusted = false;
  for (const network of prepared.networks) trusted = trusted || isInNetwork(groups, network);
  return keep(trust, address, trusted);
}
