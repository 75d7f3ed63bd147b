/** Limits on any key, as the configuration and the library state them, and the rules that they become. */

import { type Network, parseNetwork } from "../../core/address.js";
import type { OnStoreFailure } from "../../core/app-limits.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import { standardProfile } from "../../core/cost.js";
import { hostName } from "../../core/host.js";
import { canonicalPath, decoded } from "../../core/path.js";
import { isAddressPart, KEY_KINDS, type KeyKind, type KeyPart, writtenValue } from "../../limit-rules/key-parts.js";
import type { LimitRule, LimitRules, RouteEntry, UsedAttributes, ValueList } from "../../limit-rules/limit-rules.js";
import { type Pattern, parsePattern } from "../../limit-rules/pattern.js";

/** Their meaning is that of `limits` in the configuration. */
export interface LimitOptions {
  name: string;
  /** Parts such as `user` or `header:NAME`; `limits[].key` in CONFIGURATION.md lists all. */
  key?: string[] | undefined;
  match?:
    | {
        route?: string[] | undefined;
        path?: string[] | undefined;
        method?: string[] | undefined;
        app?: string[] | undefined;
        header?: { name: string; value: string }[] | undefined;
      }
    | undefined;
  /** `10/s`, `5/min`, `1000/h`, `50000/day` */
  rate: string;
  burst?: number | undefined;
  count?: "request" | "cost" | undefined;
  ipv4Prefix?: number | undefined;
  ipv6Prefix?: number | undefined;
  pathCase?: "sensitive" | "insensitive" | undefined;
  allow?: string[] | undefined;
  deny?: string[] | undefined;
  invalidValues?: "reject" | "ignore" | undefined;
  dryRun?: boolean | undefined;
  priority?: number | undefined;
  onStoreFailure?: OnStoreFailure | undefined;
}

export const limitDefaults = {
  count: "request",
  ipv4Prefix: 32,
  ipv6Prefix: 64,
  pathCase: "sensitive",
  invalidValues: "reject",
  dryRun: false,
  priority: 2,
  onStoreFailure: "open",
} as const satisfies Partial<LimitOptions>;

export interface LimitedRoute extends RouteEntry {
  /** Names of limits. */
  limits: readonly string[];
}

const keyKinds: readonly KeyKind[] = KEY_KINDS;
const partsOf = (name: (kind: KeyKind) => string) =>
  keyKinds.map((kind) => (kind.named ? `${kind.name}:${name(kind)}` : kind.name));

/** How parts of keys are written. */
export const KEY_PART = new RegExp(`^(${partsOf(({ named = "" }) => named).join("|")})$`);
export const KEY_PART_WORDS = partsOf(() => "NAME")
  .join(", ")
  .replace(/, ([^,]*)$/, " or $1");

/** `header:X-Plan` as a part; undefined if the kind is unknown. */
export function parseKeyPart(text: string): KeyPart | undefined {
  const [kind, name = ""] = text.split(":");
  const known = KEY_KINDS.find((one) => one.name === kind);
  return known && { kind: known.name, name: name.toLowerCase() };
}

export const keyPartText = ({ kind, name }: KeyPart) => (name === "" ? kind : `${kind}:${name}`);

const UNITS = { s: 1, min: 60, h: 3_600, day: 86_400 };
const RATE = /^([1-9][0-9]{0,9})\/(s|min|h|day)$/;

/** `10/s` as tokens and seconds; undefined if it is not a rate. */
export function parseRate(rate: string): { tokens: number; seconds: number } | undefined {
  const match = RATE.exec(rate);
  if (match === null || Number(match[1]) > MAX_TOKENS) return undefined;
  return { tokens: Number(match[1]), seconds: UNITS[match[2] as keyof typeof UNITS] };
}

/** Throws for an invalid rate; the configuration has been validated before. */
export function compileLimits(limits: readonly LimitOptions[], routes: readonly LimitedRoute[] = []): LimitRules {
  const rules = limits.map((limit) => limitRule(limit, routes));
  const usesRoutes = rules.some(({ key, match }) => match.routes.length > 0 || key.some(needs("route")));
  return { rules, routes: usesRoutes ? inOrder(routes) : [], uses: usedBy(rules, usesRoutes) };
}

function usedBy(rules: readonly LimitRule[], usesRoutes: boolean): UsedAttributes {
  const hasKey = (wanted: KeyKind["needs"]) => rules.some(({ key }) => key.some(needs(wanted)));
  const hasPaths = rules.some(({ match }) => match.prefixes.length + match.patterns.length > 0);
  return {
    path: usesRoutes || hasPaths || hasKey("path"),
    host: usesRoutes || hasKey("host"),
    address: hasKey("address"),
  };
}

function limitRule(limit: LimitOptions, routes: readonly LimitedRoute[]): LimitRule {
  const { name, match = {}, count = limitDefaults.count, invalidValues = limitDefaults.invalidValues } = limit;
  const { ipv4Prefix = limitDefaults.ipv4Prefix, ipv6Prefix = limitDefaults.ipv6Prefix } = limit;
  const { allow = [], deny = [] } = limit;
  const naming = routes.filter((route) => route.limits.includes(name)).map((route) => route.name);
  const ignoresPathCase = limit.pathCase === "insensitive";
  const cased = (path: string) => (ignoresPathCase ? path.toLowerCase() : path);
  const paths = (match.path ?? []).map(bytesOf);
  const key = (limit.key ?? []).map((part) => keyPart(name, part));
  const list = (values: string[]): ValueList => {
    const [part] = key;
    if (part === undefined) return { texts: values.map(bytesOf), networks: [] };
    if (isAddressPart(part)) return { texts: [], networks: values.map(networkOf) };
    return { texts: values.map((value) => writtenValue(part, ignoresPathCase, bytesOf(value))), networks: [] };
  };
  return {
    name,
    key,
    match: {
      isEmpty: naming.length === 0 && Object.values(match).every((list) => (list ?? []).length === 0),
      routes: [...new Set([...(match.route ?? []), ...naming])],
      prefixes: paths
        .filter((path) => !path.includes("*"))
        .map((path) => cased(canonicalPath(path).replace(/\/$/, ""))),
      patterns: paths.filter((path) => path.includes("*")).map((path) => pathPattern(path).map(cased)),
      methods: match.method ?? [],
      apps: match.app ?? [],
      headers: (match.header ?? []).map((header) => ({
        name: header.name.toLowerCase(),
        pattern: parsePattern(bytesOf(header.value)),
      })),
    },
    limits: bucketLimits(limit),
    countsCost: count === "cost",
    bitsOf4: ipv4Prefix,
    bitsOf6: ipv6Prefix,
    ignoresPathCase,
    allow: list(allow),
    deny: list(deny),
    rejectsInvalid: invalidValues === "reject",
    hasFreeValues: key.some((part) => kindOf(part)?.isFree),
  };
}

function bucketLimits({ name, rate, burst, ...limit }: LimitOptions): LimitRule["limits"] {
  const parsed = parseRate(rate);
  if (parsed === undefined) throw new RangeError(`limits.${name}.rate must be like 10/s, 5/min, 1000/h or 50000/day`);
  const capacity = burst ?? parsed.tokens;
  return {
    label: name,
    guaranteed: parsed.tokens / parsed.seconds,
    burst: capacity,
    fillSeconds: (capacity * parsed.seconds) / parsed.tokens,
    priority: limit.priority ?? limitDefaults.priority,
    borrow: false,
    profile: standardProfile,
    onStoreFailure: limit.onStoreFailure ?? limitDefaults.onStoreFailure,
    dryRun: limit.dryRun ?? limitDefaults.dryRun,
  };
}

/** As values of requests are: one character per byte. */
export const bytesOf = (text: string) => Buffer.from(text, "utf8").toString("latin1");

/** A slash at the end makes no difference. */
const pathPattern = (path: string): Pattern => parsePattern(path.replace(/(?<=.)\/$/, "")).map(decoded);

const kindOf = ({ kind }: KeyPart) => keyKinds.find(({ name }) => name === kind);
const needs = (wanted: KeyKind["needs"]) => (part: KeyPart) => kindOf(part)?.needs === wanted;

function keyPart(limit: string, text: string): KeyPart {
  const part = parseKeyPart(text);
  if (part === undefined) throw new RangeError(`limits.${limit}.key: ${text} is not a part of a key`);
  return part;
}

function networkOf(value: string): Network {
  const network = parseNetwork(value);
  if (network === undefined) throw new RangeError(`${value} is not an address or a network`);
  return network;
}

/** Routes of a host first, then by length: the first that matches is the route of a request. */
export function inOrder(routes: readonly Omit<LimitedRoute, "limits">[]): RouteEntry[] {
  return routes
    .map(({ name, host, path }) => ({ name, host: hostName(host), path: canonicalPath(path) }))
    .sort((a, b) => Number(a.host === "") - Number(b.host === "") || b.path.length - a.path.length);
}
