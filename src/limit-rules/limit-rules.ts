/** Limits on any key: finds the limits that apply to a request, and the bucket of each. */
import { addressGroups, isInNetwork, type Network, networkText } from "../core/address.js";
import type { AppLimits } from "../core/app-limits.js";
import { hostName } from "../core/host.js";
import { VALUE_PREFIX } from "../core/keys.js";
import { withoutLastSlash } from "../core/path.js";
import { cutText, escapeBytes, findText, hasPrefix, lowerText } from "../core/platform.js";
import { type FoundPaths, findPaths, NOTHING } from "./found-paths.js";
import {
  type Comparison,
  INVALID,
  isAddressPart,
  type KeyPart,
  normalValue,
  type RequestAttributes,
  receivedValue,
} from "./key-parts.js";
import { coversPath, coversSegments, matchesPattern, type Pattern } from "./pattern.js";

export type { RequestAttributes };

export interface HeaderMatch {
  name: string;
  pattern: Pattern;
}

/** Empty lists match every request. */
export interface RequestMatch {
  /** All lists are empty. */
  isEmpty: boolean;
  routes: string[];
  /** A path matches if one of the prefixes or patterns does. Prefixes are whole segments; neither ends with a slash. */
  prefixes: string[];
  patterns: Pattern[];
  methods: string[];
  apps: string[];
  /** All must match. */
  headers: HeaderMatch[];
}

/** Values that a limit treats in another way. Networks apply to addresses. */
export interface ValueList {
  texts: string[];
  networks: Network[];
}

export interface LimitRule extends Comparison {
  name: string;
  key: KeyPart[];
  match: RequestMatch;
  /** The limit of each bucket, without its id. */
  limits: Omit<AppLimits, "id">;
  /** Tokens are the cost of a request, otherwise requests. */
  countsCost: boolean;
  /** Values that are not limited. */
  allow: ValueList;
  /** Values that are refused. */
  deny: ValueList;
  /** Refuse requests with an invalid value; otherwise they count as requests without the value. */
  rejectsInvalid: boolean;
  /** Clients choose the values, so their number has to be limited. */
  hasFreeValues: boolean;
  /** Set by a host, so that a value is not parsed and escaped for each request. */
  recent?: RecentMatches;
}

/** Some recent matches by the values of the key, as received; the host limits their number. */
export interface RecentMatches {
  get(this: void, values: string): LimitMatch | undefined;
  set(this: void, values: string, match: LimitMatch): void;
}

export interface RouteEntry {
  name: string;
  /** In lower case; empty: any. */
  host: string;
  path: string;
}

/** The rules of a configuration. */
export interface LimitRules {
  rules: LimitRule[];
  /** All routes, in the order in which they are tried; empty if no rule depends on the route. */
  routes: RouteEntry[];
  uses: UsedAttributes;
}

/** What the rules depend on: hosts need not read the rest. */
export interface UsedAttributes {
  path: boolean;
  host: boolean;
  address: boolean;
}

/** A configuration without limits. */
export const NO_LIMITS: LimitRules = { rules: [], routes: [], uses: { path: false, host: false, address: false } };

export interface LimitMatch {
  readonly rule: LimitRule;
  /** The id of the bucket. */
  readonly id: string;
  readonly denied: boolean;
  /** A host may keep the account of the bucket here. */
  account: object | undefined;
}

export interface MatchedLimits extends FoundPaths {
  /** The name of a limit whose value is invalid, if it rejects such requests; otherwise empty. */
  invalid: string;
  /** In the order of the configuration. Entries from `count` on are those of an earlier request. */
  matches: LimitMatch[];
  count: number;
  route: string;
  /** Of the other paths. */
  otherRoutes: string[];
}

/** SHA-1 in hexadecimal digits. */
export type Digest = (this: void, text: string) => string;

/** After the name of the limit: values beyond the maximum number share this bucket, or one of those with two hexadecimal digits more. */
const OVERFLOW = "_o";
/** Whoever can use many addresses has them in such a network, most of the time. */
const OVERFLOW_BITS_OF_4 = 32;
const OVERFLOW_BITS_OF_6 = 48;
/** After the name of the limit: the digest of a long value. */
const DIGEST = "_x";
/** Ids have at most 128 characters. */
export const LONGEST_NAME = 48;
const LONGEST_ESCAPED = 128 - LONGEST_NAME - 8;

export function newMatched(): MatchedLimits {
  const paths = { path: "", routedPath: "", otherPaths: NOTHING, pathValue: "" };
  return { invalid: "", matches: [], count: 0, ...paths, route: "", otherRoutes: NOTHING };
}

export function matchLimits(rules: LimitRules, request: RequestAttributes, digest: Digest): MatchedLimits {
  const found = newMatched();
  findLimits(found, rules, request, digest);
  return found;
}

/** As `matchLimits`, in a record of an earlier request. */
export function findLimits(
  found: MatchedLimits,
  { rules, routes, uses }: LimitRules,
  request: RequestAttributes,
  digest: Digest,
): void {
  found.invalid = "";
  if (uses.path) findPaths(found, request.path, request.routedPath);
  found.route = routes.length === 0 ? "" : routeOf(routes, request.host, found.routedPath);
  found.otherRoutes = NOTHING;
  if (routes.length > 0 && found.otherPaths.length > 0) {
    found.otherRoutes = [];
    for (const path of found.otherPaths) found.otherRoutes.push(routeOf(routes, request.host, path));
  }
  let count = 0;
  for (const rule of rules) {
    if (rule.match.isEmpty || isMatch(rule, request, found)) {
      const match = matchOf(rule, request, found, digest);
      if (match === undefined) found.invalid = rule.name;
      else if (match.id !== "") {
        found.matches[count] = match;
        count = count + 1;
      }
    }
  }
  found.count = count;
}

/** Longer values are not remembered. */
const LONGEST_REMEMBERED = 64;

/** As `newMatch`, for values of recent requests. */
function matchOf(
  rule: LimitRule,
  request: RequestAttributes,
  found: MatchedLimits,
  digest: Digest,
): LimitMatch | undefined {
  const { recent } = rule;
  const values = recent === undefined ? INVALID : receivedValues(rule, request, found);
  if (recent === undefined || values === INVALID || values.length > LONGEST_REMEMBERED) {
    return newMatch(rule, request, found, digest);
  }
  const known = recent.get(values);
  if (known !== undefined) return known;
  const match = newMatch(rule, request, found, digest);
  if (match !== undefined) recent.set(values, match);
  return match;
}

/** Tells apart all requests with different buckets; INVALID if it cannot. */
function receivedValues(rule: LimitRule, request: RequestAttributes, found: MatchedLimits): string {
  const { key } = rule;
  const only = key.length === 1 ? key[0] : undefined;
  if (only !== undefined) return receivedValue(only, rule, request, found);
  let values = "";
  for (const part of key) {
    const value = receivedValue(part, rule, request, found);
    if (findText(value, INVALID, 0) >= 0) return INVALID;
    values = values + value + INVALID;
  }
  return values;
}

/** Undefined if a value is invalid and rejected. The id is empty for an allowed value. */
function newMatch(
  rule: LimitRule,
  request: RequestAttributes,
  found: MatchedLimits,
  digest: Digest,
): LimitMatch | undefined {
  let values = "";
  let first = "";
  for (let i = 0; i < rule.key.length; i++) {
    const part = rule.key[i]!;
    let value = normalValue(part, rule, receivedValue(part, rule, request, found));
    if (value === INVALID) {
      if (rule.rejectsInvalid) return undefined;
      value = "";
    }
    // Lists compare whole addresses, not their networks.
    if (i === 0) first = isAddressPart(part) && value !== "" ? request.address : value;
    values = i === 0 ? escapeBytes(value) : `${values}:${escapeBytes(value)}`;
  }
  if (isListed(rule.allow, first)) return { rule, id: "", denied: false, account: undefined };
  const id = bucketId(rule.name, values, digest);
  return { rule, id, denied: isListed(rule.deny, first), account: undefined };
}

/** `values` are escaped. */
export function bucketId(limit: string, values: string, digest: Digest): string {
  return `${VALUE_PREFIX}${limit}:${values.length > LONGEST_ESCAPED ? DIGEST + digest(values) : values}`;
}

/** The bucket of values for which there is no room, of clients whose address is unknown. */
export function overflowId(limit: string): string {
  return `${VALUE_PREFIX}${limit}:${OVERFLOW}`;
}

/** How many buckets `overflowOf` distinguishes. */
export const OVERFLOW_BUCKETS = 256;

/**
 * The bucket of a value for which there is no room. It depends on the client, not on the value: a client that invents values
 * uses up one bucket, and clients from other networks have others.
 */
export function overflowOf(limit: string, address: string, digest: Digest): string {
  const network = networkText(address, OVERFLOW_BITS_OF_4, OVERFLOW_BITS_OF_6);
  return network === "" ? overflowId(limit) : overflowId(limit) + cutText(digest(network), 0, 2);
}

/** Whether values share the bucket. */
export function isOverflow(id: string): boolean {
  const limit = limitOfBucket(id);
  return limit !== "" && hasPrefix(id, overflowId(limit));
}

/** The name of the limit in the id of a bucket; empty if it is not one. */
export function limitOfBucket(id: string): string {
  if (cutText(id, 0, VALUE_PREFIX.length) !== VALUE_PREFIX) return "";
  const end = findText(id, ":", VALUE_PREFIX.length);
  return end < 0 ? "" : cutText(id, VALUE_PREFIX.length, end);
}

function isListed({ texts, networks }: ValueList, value: string): boolean {
  for (const text of texts) if (text === value) return true;
  if (networks.length === 0) return false;
  const groups = addressGroups(value);
  for (const network of networks) if (isInNetwork(groups, network)) return true;
  return false;
}

function isMatch({ match, ignoresPathCase }: LimitRule, request: RequestAttributes, found: MatchedLimits): boolean {
  const { routes, methods, apps, prefixes, patterns, headers } = match;
  if (routes.length > 0 && !isAnyRoute(routes, found)) return false;
  if (methods.length > 0 && !includes(methods, request.method)) return false;
  if (apps.length > 0 && !includes(apps, request.app)) return false;
  if (prefixes.length + patterns.length > 0 && !isAnyPathMatch(match, ignoresPathCase, found)) return false;
  for (const { name, pattern } of headers) {
    const count = request.headerCount(name);
    // A header that was sent twice matches: otherwise a second one would avoid the limit.
    if (count === 0 || (count === 1 && !matchesPattern(pattern, request.header(name)))) return false;
  }
  return true;
}

function isAnyRoute(routes: string[], { route, otherRoutes }: MatchedLimits): boolean {
  if (includes(routes, route)) return true;
  for (const other of otherRoutes) if (includes(routes, other)) return true;
  return false;
}

/** One reading is enough: the server may be one that reads the path like this. */
function isAnyPathMatch(match: RequestMatch, ignoresCase: boolean, { path, otherPaths }: MatchedLimits): boolean {
  if (isPathMatch(match, ignoresCase ? lowerText(path) : path)) return true;
  for (const other of otherPaths) if (isPathMatch(match, ignoresCase ? lowerText(other) : other)) return true;
  return false;
}

function isPathMatch({ prefixes, patterns }: RequestMatch, path: string): boolean {
  for (const prefix of prefixes) if (coversSegments(prefix, path)) return true;
  for (const pattern of patterns) {
    if (matchesPattern(pattern, path) || matchesPattern(pattern, withoutLastSlash(path))) return true;
  }
  return false;
}

function includes(list: string[], wanted: string): boolean {
  for (const one of list) if (one === wanted) return true;
  return false;
}

/** The name of the route; empty without one. */
export function routeOf(routes: RouteEntry[], host: string, path: string): string {
  const name = hostName(host);
  for (const route of routes) {
    if ((route.host === "" || route.host === name) && coversPath(route.path, path)) return route.name;
  }
  return "";
}
