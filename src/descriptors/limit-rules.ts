/** Limits on any key: finds the limits that apply to a request, and the bucket of each. */
import { addressGroups, isInNetwork, type Network, networkText } from "../core/address.js";
import type { CostProfile } from "../core/cost.js";
import type { AppLimits } from "../core/limits.js";
import { cutText, escapeBytes, findText, hasControls, lowerText } from "../core/platform.js";
import { normalPath } from "./path.js";
import { coversPath, matchesPattern, type Pattern } from "./pattern.js";

/** What decisions depend on besides app, method and length. Header names are in lower case. */
export interface RequestAttributes {
  app: string;
  /** "anonymous" without one. */
  user: string;
  method: string;
  /** As in the Host header. */
  host: string;
  /** As received; a query is ignored. */
  path: string;
  /** The client's address; may be invalid. */
  address: string;
  /** The prices of the request's route; unset: those of its app. */
  profile?: CostProfile | undefined;
  /** How often the header was sent: 0, 1, or 2 for more. */
  headerCount(name: string): number;
  /** The value of a header that was sent once. Each character is a byte. */
  header(name: string): string;
}

/** A part of a limit's key: an attribute, or a header by its name. */
export interface KeyPart {
  kind: string;
  /** In lower case; empty unless `kind` is "header". */
  header: string;
}

export interface HeaderMatch {
  name: string;
  pattern: Pattern;
}

/** Empty lists match every request. */
export interface RequestMatch {
  routes: string[];
  /** A path matches if one of the prefixes or patterns does. */
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

export interface LimitRule {
  name: string;
  key: KeyPart[];
  match: RequestMatch;
  /** The limit of each bucket, without its id. */
  limits: Omit<AppLimits, "id">;
  /** Tokens are the cost of a request, otherwise requests. */
  countsCost: boolean;
  /** Bits of an address that are one value. */
  bitsOf4: number;
  bitsOf6: number;
  /** Values that are not limited. */
  allow: ValueList;
  /** Values that are refused. */
  deny: ValueList;
  /** Refuse requests with an invalid value; otherwise they count as requests without the value. */
  rejectsInvalid: boolean;
  /** Clients choose the values, so their number has to be limited. */
  hasFreeValues: boolean;
  /** Of a rule with the key `user` or `ip` only: so that a value is not parsed and escaped for each request. */
  matchesByValue?: MatchesByValue;
}

/** Some recent matches; the host limits their number. */
export interface MatchesByValue {
  get(value: string): LimitMatch | undefined;
  set(value: string, match: LimitMatch): void;
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
}

export interface LimitMatch {
  readonly rule: LimitRule;
  /** The id of the bucket. */
  readonly id: string;
  readonly denied: boolean;
}

export interface MatchedLimits {
  /** The limit whose value is invalid, if it rejects such requests. */
  invalid: LimitRule | undefined;
  /** In the order of the configuration. */
  matches: LimitMatch[];
}

/** SHA-1 in hexadecimal digits. */
export type Digest = (this: void, text: string) => string;

/** Ids of configured apps must not begin with this. */
export const BUCKET_PREFIX = "limit:";
/** After the name of the limit: all values beyond the maximum number share a bucket. */
const OVERFLOW = "_o";
/** After the name of the limit: the digest of a long value. */
const DIGEST = "_x";
/** Longer values are invalid in a header; a path is cut. */
export const LONGEST_VALUE = 1024;
/** Ids have at most 128 characters. */
export const LONGEST_NAME = 48;
const LONGEST_ESCAPED = 128 - LONGEST_NAME - 8;

const INVALID = "\n";

export function matchLimits({ rules, routes }: LimitRules, request: RequestAttributes, digest: Digest): MatchedLimits {
  const found: MatchedLimits = { invalid: undefined, matches: [] };
  const path = normalPath(request.path);
  const route = routes.length === 0 ? "" : routeOf(routes, request.host, path);
  for (const rule of rules) {
    if (isMatch(rule.match, request, path, route)) {
      const match = matchOf(rule, request, { path, route, digest });
      if (match === undefined) found.invalid = rule;
      else if (match.id !== "") found.matches.push(match);
    }
  }
  return found;
}

interface Found {
  path: string;
  route: string;
  digest: Digest;
}

/** Longer values are not remembered: no address is longer. */
const LONGEST_REMEMBERED = 64;

/** As `newMatch`, for values of recent requests. */
function matchOf(rule: LimitRule, request: RequestAttributes, found: Found): LimitMatch | undefined {
  const { matchesByValue } = rule;
  if (matchesByValue === undefined) return newMatch(rule, request, found);
  const value = rule.key[0]!.kind === "ip" ? request.address : request.user;
  const known = matchesByValue.get(value);
  // A copy of the rule, with other lists, has the same memory.
  if (known !== undefined && known.rule === rule) return known;
  const match = newMatch(rule, request, found);
  if (match !== undefined && value.length <= LONGEST_REMEMBERED) matchesByValue.set(value, match);
  return match;
}

/** Undefined if a value is invalid and rejected. The id is empty for an allowed value. */
function newMatch(rule: LimitRule, request: RequestAttributes, found: Found): LimitMatch | undefined {
  let values = "";
  let first = "";
  for (let i = 0; i < rule.key.length; i++) {
    let value = partValue(rule, rule.key[i]!, request, found);
    if (value === INVALID) {
      if (rule.rejectsInvalid) return undefined;
      value = "";
    }
    // Lists compare whole addresses, not their networks.
    if (i === 0) first = rule.key[i]!.kind === "ip" && value !== "" ? request.address : value;
    values = i === 0 ? escapeBytes(value) : `${values}:${escapeBytes(value)}`;
  }
  if (isListed(rule.allow, first)) return { rule, id: "", denied: false };
  const id = bucketId(rule.name, values, found.digest);
  return { rule, id, denied: isListed(rule.deny, first) };
}

/** `values` are escaped. */
export function bucketId(limit: string, values: string, digest: Digest): string {
  return `${BUCKET_PREFIX}${limit}:${values.length > LONGEST_ESCAPED ? DIGEST + digest(values) : values}`;
}

export function overflowId(limit: string): string {
  return `${BUCKET_PREFIX}${limit}:${OVERFLOW}`;
}

/** The name of the limit in the id of a bucket; empty if it is not one. */
export function limitOfBucket(id: string): string {
  if (cutText(id, 0, BUCKET_PREFIX.length) !== BUCKET_PREFIX) return "";
  const end = findText(id, ":", BUCKET_PREFIX.length);
  return end < 0 ? "" : cutText(id, BUCKET_PREFIX.length, end);
}

function isListed({ texts, networks }: ValueList, value: string): boolean {
  for (const text of texts) if (text === value) return true;
  if (networks.length === 0) return false;
  const groups = addressGroups(value);
  for (const network of networks) if (isInNetwork(groups, network)) return true;
  return false;
}

function partValue(rule: LimitRule, part: KeyPart, request: RequestAttributes, { path, route }: Found): string {
  switch (part.kind) {
    case "user":
      return request.user;
    case "ip":
      return addressValue(rule, request.address);
    case "header":
      return headerValue(request, part.header);
    case "app":
      return request.app;
    case "method":
      return request.method;
    case "host":
      return hostName(request.host);
    case "route":
      return route;
    default:
      return cutText(path, 0, LONGEST_VALUE);
  }
}

function addressValue({ bitsOf4, bitsOf6 }: LimitRule, address: string): string {
  const network = networkText(address, bitsOf4, bitsOf6);
  return network === "" ? INVALID : network;
}

function headerValue(request: RequestAttributes, name: string): string {
  const count = request.headerCount(name);
  if (count === 0) return "";
  const value = count === 1 ? request.header(name) : INVALID;
  return value.length > LONGEST_VALUE || hasControls(value) ? INVALID : value;
}

function isMatch(match: RequestMatch, request: RequestAttributes, path: string, route: string): boolean {
  const { routes, methods, apps, prefixes, patterns, headers } = match;
  if (routes.length > 0 && !includes(routes, route)) return false;
  if (methods.length > 0 && !includes(methods, request.method)) return false;
  if (apps.length > 0 && !includes(apps, request.app)) return false;
  if (prefixes.length + patterns.length > 0 && !isPathMatch(prefixes, patterns, path)) return false;
  for (const { name, pattern } of headers) {
    const count = request.headerCount(name);
    // A header that was sent twice matches: otherwise a second one would avoid the limit.
    if (count === 0 || (count === 1 && !matchesPattern(pattern, request.header(name)))) return false;
  }
  return true;
}

function isPathMatch(prefixes: string[], patterns: Pattern[], path: string): boolean {
  for (const prefix of prefixes) if (coversPath(prefix, path)) return true;
  for (const pattern of patterns) if (matchesPattern(pattern, path)) return true;
  return false;
}

function includes(list: string[], wanted: string): boolean {
  for (const one of list) if (one === wanted) return true;
  return false;
}

/** In lower case and without the port. An IPv6 address keeps its brackets. */
export function hostName(host: string): string {
  const bracket = cutText(host, 0, 1) === "[" ? findText(host, "]", 0) + 1 : 0;
  const end = bracket > 0 ? bracket : findText(host, ":", 0);
  return lowerText(end > 0 ? cutText(host, 0, end) : host);
}

/** The name of the route; empty without one. */
export function routeOf(routes: RouteEntry[], host: string, path: string): string {
  const name = hostName(host);
  for (const route of routes) {
    if ((route.host === "" || route.host === name) && coversPath(route.path, path)) return route.name;
  }
  return "";
}
