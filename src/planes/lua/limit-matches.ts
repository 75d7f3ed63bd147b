/** Finds the limits of a request on a Lua plane. The rules are those of `descriptors`. */
import { addressGroups, clientAddress, isInNetwork, type Network } from "../../core/address.js";
import { ANONYMOUS_USER } from "../../core/identity.js";
import {
  type Digest,
  type LimitMatch,
  type LimitRule,
  type LimitRules,
  type MatchedLimits,
  matchLimits,
  type RequestAttributes,
} from "../../descriptors/limit-rules.js";
import { UPGRADE } from "../../engine/settle.js";
import { type Cache, keep, newCache } from "./cache.js";

/** How a host reads a request. */
export interface AttributeReader {
  host(this: void): string;
  path(this: void): string;
  /** Of the connection. */
  peer(this: void): string;
  /** X-Forwarded-For; empty without one. Several headers are joined with commas. */
  forwardedFor(this: void): string;
  headerCount(this: void, name: string): number;
  header(this: void, name: string): string;
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
  /** What the rules depend on: reading costs time. */
  usesAddress: boolean;
  usesHost: boolean;
  usesPath: boolean;
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
  prepared.usesAddress = false;
  prepared.usesHost = limits.routes.length > 0;
  prepared.usesPath = limits.routes.length > 0;
  for (const rule of limits.rules) {
    prepared.byName[rule.name] = rule;
    rememberMatches(rule);
    const { prefixes, patterns } = rule.match;
    if (prefixes.length + patterns.length > 0) prepared.usesPath = true;
    for (const { kind } of rule.key) {
      if (kind === "ip") prepared.usesAddress = true;
      if (kind === "host") prepared.usesHost = true;
      if (kind === "path") prepared.usesPath = true;
    }
  }
  attributes.headerCount = headerCount;
  attributes.header = header;
}

/** Values of most requests were seen before, so they need not be parsed and escaped again. */
function rememberMatches(rule: LimitRule): void {
  const first = rule.key[0];
  if (rule.key.length !== 1 || first === undefined || (first.kind !== "user" && first.kind !== "ip")) return;
  const matches: Cache<LimitMatch> = newCache();
  rule.matchesByValue = {
    get: (value) => matches.values[value],
    set(value, match) {
      keep(matches, value, match);
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

/** Who sends the current request. */
export interface Sender {
  app: string;
  /** Undefined without one. */
  user: string | undefined;
  hopTrusted: boolean;
}

/** The limits that apply to the current request. */
export function matchRequest({ app, user, hopTrusted }: Sender, method: string): MatchedLimits {
  const { reader, rules, usesAddress, usesHost, usesPath } = prepared;
  attributes.app = app;
  attributes.user = hopTrusted && user !== undefined ? user : ANONYMOUS_USER;
  // Only a GET can be upgraded.
  attributes.method = method === UPGRADE ? "GET" : method;
  attributes.host = usesHost ? reader.host() : "";
  attributes.path = usesPath ? reader.path() : "/";
  attributes.address = usesAddress ? addressOf(hopTrusted) : "";
  return matchLimits(rules, attributes, reader.digest);
}

function addressOf(hopTrusted: boolean): string {
  const peer = prepared.reader.peer();
  return hopTrusted ? clientAddress(peer, prepared.reader.forwardedFor(), isTrusted) : peer;
}

const trust: Cache<boolean> = newCache();

function isTrusted(this: void, address: string): boolean {
  const known = trust.values[address];
  if (known !== undefined) return known;
  const groups = addressGroups(address);
  let trusted = false;
  for (const network of prepared.networks) trusted = trusted || isInNetwork(groups, network);
  return keep(trust, address, trusted);
}
