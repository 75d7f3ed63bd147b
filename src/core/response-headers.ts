/** Response headers of decisions: which limits a request has, and what is left of them. Used by all planes. */
import { OK } from "./codes.js";
import { joinable, wholeText } from "./platform.js";

/** The part of a decision that the client sees. */
export interface ClientDecision {
  allowed: boolean;
  /** One of core/codes.ts. On a dry run a request is allowed with the code that it would be refused with. */
  code: string;
  /** The app is on a dry run. */
  dryRun: boolean;
  /**
   * The configured app that pays; for a descriptor limit, its rule; empty if the request belongs to no app. Must need no
   * escaping in a JSON or structured field string, as app ids.
   */
  app: string;
  /** Tokens taken, or that would have been taken. */
  cost: number;
  /** Tokens left for the app, as far as this node knows. */
  remaining: number;
  /** The app's burst, reduced in an emergency. */
  limit: number;
  /** 0 if waiting does not help or is not needed. */
  retryAfterMs: number;
  /** The limit that decided; unset or empty if it was the app's. */
  limitName?: string | undefined;
}

/** A limit of a request besides that of its app. */
export interface LimitView {
  name: string;
  /** As in ClientDecision, for this limit. */
  cost: number;
  remaining: number;
  limit: number;
  /** Tokens per second. */
  rate: number;
  /** "tokens" or "requests": what the limit counts. */
  unit: string;
  dryRun: boolean;
}

/** Quota units of policies: the prices of requests, which no registered unit describes, and requests, the default. */
export const TOKENS = "tokens";
export const REQUESTS = "requests";

/** Which headers are sent with each response. Retry-After and X-RateLimit-Dry-Run are always sent where they apply. */
export interface HeaderOptions {
  /** X-RateLimit-Cost, X-RateLimit-Limit and X-RateLimit-Remaining. */
  xRateLimit: boolean;
  /** RateLimit and RateLimit-Policy. */
  ietf: boolean;
}

export const ALL_HEADERS: HeaderOptions = { xRateLimit: true, ietf: true };

export const DRY_RUN_HEADER = "X-RateLimit-Dry-Run";
const X_RATE_LIMIT_HEADERS = ["X-RateLimit-Cost", "X-RateLimit-Limit", "X-RateLimit-Remaining"];
const IETF_HEADERS = ["RateLimit", "RateLimit-Policy"];

/** Headers that a backend must not set, because responses may have them from the gateway. */
export function reservedHeaders({ xRateLimit, ietf }: HeaderOptions): string[] {
  const names = [DRY_RUN_HEADER];
  if (xRateLimit) for (const name of X_RATE_LIMIT_HEADERS) names.push(name);
  if (ietf) for (const name of IETF_HEADERS) names.push(name);
  return names;
}

/** How a plane sets a response header on its own kind of response. */
export type AddHeader<T> = (this: void, target: T, name: string, value: string) => void;

/** Adds the headers of a decision to a response. */
export type HeaderWriter<T> = (
  this: void,
  target: T,
  decision: ClientDecision,
  texts: HeaderTexts,
  resetSeconds: number,
) => void;

/** Parts of header values. */
export interface HeaderTexts {
  limitText: string;
  /** The value of RateLimit-Policy. */
  policy: string;
  /** The value of RateLimit up to the remaining tokens, after what it states about the app and other limits. */
  remainingPrefix: string;
  /** About other limits, with a comma at the end; empty without any. */
  others: string;
  /** About the app, if a limit follows; otherwise empty. */
  appPrefix: string;
  appRemaining: number;
  appReset: number;
}

/** Those that change only with the limit. Planes keep them per app and limit. */
export interface LimitTexts extends HeaderTexts {
  /** What RateLimit states about this limit, by remaining tokens: many values of a limit have the same. */
  parts: { [remaining: number]: string | undefined };
  partCount: number;
  /** The policies of this app and of the limits of its last request, in the order in which they are sent. */
  joined: string;
  joinedWith: LimitTexts[];
  joinedLast: number;
}

const LOWEST_RATE = 1e-6;
const ROUNDING_SECONDS = 0.001;
/** The index of the app among the limits of a request. */
const APP = -1;

/** The window of a policy is the time in which an empty bucket fills. */
export function limitTexts(app: string, limit: number, rate: number, unit: string): LimitTexts {
  // A rate such as one third of a token per second is rounded.
  const windowSeconds = Math.max(Math.ceil(limit / Math.max(rate, LOWEST_RATE) - ROUNDING_SECONDS), 1);
  const limitText = wholeText(limit);
  const unitText = unit === REQUESTS ? "" : `;qu="${unit}"`;
  return {
    limitText,
    policy: `"${app}";q=${limitText};w=${wholeText(windowSeconds)}${unitText}`,
    remainingPrefix: `"${app}";r=`,
    others: "",
    appPrefix: "",
    appRemaining: 0,
    appReset: 0,
    parts: {},
    partCount: 0,
    joined: "",
    joinedWith: [],
    joinedLast: APP,
  };
}

/** Seconds until the bucket is full again, as far as this node knows. */
export function resetSeconds(limit: number, remaining: number, rate: number): number {
  return Math.ceil(Math.max(limit - remaining, 0) / Math.max(rate, LOWEST_RATE));
}

export function retryAfterSeconds(retryAfterMs: number): number {
  return retryAfterMs <= 0 ? 0 : Math.max(Math.ceil(retryAfterMs / 1000), 1);
}

/**
 * The X-RateLimit headers, and RateLimit with RateLimit-Policy as in draft-ietf-httpapi-ratelimit-headers-10: the app is
 * the policy, and tokens are its unit (`qu`). On a dry run each response also has X-RateLimit-Dry-Run: `pass`, or `would-refuse;
 * reason=…` for a request that exceeds the limit; it has no Retry-After because nothing was refused.
 */
export function headerWriter<T>(options: HeaderOptions, add: AddHeader<T>): HeaderWriter<T> {
  const { xRateLimit, ietf } = options;
  return (target, decision, texts, reset) => {
    const remaining = wholeText(decision.remaining);
    if (xRateLimit) {
      add(target, "X-RateLimit-Cost", wholeText(decision.cost));
      add(target, "X-RateLimit-Limit", texts.limitText);
      add(target, "X-RateLimit-Remaining", remaining);
    }
    if (ietf && decision.app !== "") {
      add(target, "RateLimit-Policy", texts.policy);
      // In this order Lua joins all parts in one step.
      add(target, "RateLimit", rateLimitText(texts, remaining, reset));
    }
    if (decision.dryRun && decision.allowed) add(target, DRY_RUN_HEADER, dryRunText(decision.code));
    if (!decision.allowed && decision.retryAfterMs > 0) {
      add(target, "Retry-After", wholeText(retryAfterSeconds(decision.retryAfterMs)));
    }
  };
}

/** Each text is joined in one step: in Lua, every further one would be created and looked up. */
function rateLimitText(texts: HeaderTexts, remaining: string, reset: number): string {
  const { others, appPrefix, remainingPrefix } = texts;
  const seconds = joinable(reset);
  if (appPrefix === "") return others + (remainingPrefix + (remaining + (";t=" + seconds)));
  const appTokens = joinable(texts.appRemaining);
  const appSeconds = joinable(texts.appReset);
  return (
    appPrefix +
    (appTokens + (";t=" + (appSeconds + (", " + (others + (remainingPrefix + (remaining + (";t=" + seconds))))))))
  );
}

/** A decision with the rate of the app, and with its other limits if there are any. */
export interface LimitedDecision extends ClientDecision {
  rate: number;
  /** What `limit` counts, if it is not tokens. */
  unit?: string | undefined;
  limits?: readonly LimitView[] | undefined;
}

/** What is shown of a decision about an app and other limits; first, what concerns the app. */
export interface ShownDecision extends ClientDecision {
  rate: number;
  /** Of the app. */
  texts: LimitTexts;
  /** Set by `startShowing` and `showLimit`. There may be more entries, of earlier decisions. */
  limits: LimitView[];
  textsOfLimits: LimitTexts[];
  count: number;
  /** The index of the limit that the X-RateLimit headers show. */
  last: number;
  /** Its remaining tokens. */
  least: number;
}

/** To be called when all fields about the app are set, before `showLimit` for each of the limits. */
export function startShowing(shown: ShownDecision): void {
  shown.count = 0;
  shown.last = APP;
  shown.least = shown.remaining;
}

export function showLimit(shown: ShownDecision, limit: LimitView, texts: LimitTexts): void {
  const { count } = shown;
  shown.limits[count] = limit;
  shown.textsOfLimits[count] = texts;
  shown.count = count + 1;
  shown.dryRun = shown.dryRun || limit.dryRun;
  if (shown.allowed ? limit.remaining < shown.least : limit.name === shown.limitName) {
    shown.last = count;
    shown.least = limit.remaining;
  }
}

/** Reused for every request. */
const joined: HeaderTexts = {
  limitText: "",
  policy: "",
  remainingPrefix: "",
  others: "",
  appPrefix: "",
  appRemaining: 0,
  appReset: 0,
};

/**
 * Writes the headers of an app and several limits. The IETF headers list each; the others show the limit that refused the
 * request, or the one with the fewest tokens left, which is listed last. `shown` becomes what was shown.
 */
export function writeLimits<T>(write: HeaderWriter<T>, target: T, shown: ShownDecision): void {
  const { limits, textsOfLimits, texts, count, last } = shown;
  const { joinedWith } = texts;
  let isKnown = texts.joinedLast === last && joinedWith.length === count;
  let others = "";
  for (let i = 0; i < count; i++) {
    const own = textsOfLimits[i]!;
    isKnown = isKnown && joinedWith[i] === own;
    if (i !== last) {
      const part = knownPart(own, limits[i]!);
      others = others === "" ? part : others + part;
    }
  }
  if (!isKnown) joinPolicies(shown);
  const own = last === APP ? shown : limits[last]!;
  const ownTexts = last === APP ? texts : textsOfLimits[last]!;
  joined.limitText = ownTexts.limitText;
  joined.policy = texts.joined;
  joined.remainingPrefix = ownTexts.remainingPrefix;
  joined.others = others;
  joined.appPrefix = last === APP ? "" : texts.remainingPrefix;
  joined.appRemaining = shown.remaining;
  joined.appReset = resetSeconds(shown.limit, shown.remaining, shown.rate);
  shown.cost = own.cost;
  shown.remaining = own.remaining;
  shown.limit = own.limit;
  write(target, shown, joined, resetSeconds(own.limit, own.remaining, own.rate));
}

function joinPolicies({ texts, textsOfLimits, count, last }: ShownDecision): void {
  const list: LimitTexts[] = [];
  let policies = last === APP ? "" : texts.policy + ", ";
  for (let i = 0; i < count; i++) {
    const { policy } = textsOfLimits[i]!;
    list.push(textsOfLimits[i]!);
    if (i !== last) policies = policies + (policy + ", ");
  }
  texts.joined = policies + (last === APP ? texts.policy : textsOfLimits[last]!.policy);
  texts.joinedWith = list;
  texts.joinedLast = last;
}

const MOST_PARTS = 1000;

/** As `remainingPart`. */
function knownPart(texts: LimitTexts, limit: LimitView): string {
  const { remaining } = limit;
  let part = texts.parts[remaining];
  if (part === undefined) {
    part = remainingPart(texts, limit);
    if (texts.partCount >= MOST_PARTS) {
      texts.parts = {};
      texts.partCount = 0;
    }
    texts.parts[remaining] = part;
    texts.partCount = texts.partCount + 1;
  }
  return part;
}

/** The part of RateLimit about one limit, before another one. In this order Lua joins all parts in one step. */
function remainingPart(
  { remainingPrefix }: LimitTexts,
  { limit, remaining, rate }: Pick<LimitView, "limit" | "remaining" | "rate">,
): string {
  return remainingPrefix + (joinable(remaining) + (";t=" + (joinable(resetSeconds(limit, remaining, rate)) + ", ")));
}

/** Whether a limit decided that is not the app's. */
export function isNamed(limitName: string | undefined): limitName is string {
  return limitName !== undefined && limitName !== "";
}

/** A structured field: the result if the limit were enforced, and the reason. */
export function dryRunText(code: string): string {
  return code === OK ? "pass" : `would-refuse; reason=${code}`;
}
