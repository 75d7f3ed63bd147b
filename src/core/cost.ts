/** The cost of a request: estimated before it runs, priced after it ran, and the difference to settle. */
import { wholeNumber } from "./platform.js";

export interface CostProfile {
  /** Tokens for the operation itself, by method. Methods are case-sensitive, as in HTTP. */
  base: Record<"GET" | "HEAD" | "OPTIONS" | "DELETE" | "POST" | "PUT" | "PATCH" | "other", number>;
  /** Bytes per unit of bandwidth. */
  quantum: number;
  /** Tokens per started quantum. */
  bandwidth: number;
  /** No request costs more than this. */
  maxCost: number;
  /** The bodies whose bytes are counted; default "both". */
  countedBytes?: CountedBytes;
  /** The route that has these prices instead of those of the app: sizes are learned separately for it. */
  route?: string;
}

export type CountedBytes = "both" | "request" | "response";

export const MAX_COST = 1000000;
/** Histogram buckets for request cost. */
export const COST_BOUNDS: readonly number[] = [1, 2, 5, 10, 25, 50, 100, 500, 1000, 10000, 100000];
export const KIB = 1024;
export const MIB = 1048576;
/** The largest size that a double counts exactly. */
export const MAX_BYTES = 9007199254740992;
/** In place of a cost if the size is invalid. Never reaches a bucket. */
export const INVALID_COST = -1;
/** In place of a Content-Length if the body is chunked. */
export const UNKNOWN_LENGTH = -1;

const operations = { GET: 1, HEAD: 1, OPTIONS: 1, DELETE: 2, POST: 5, PUT: 5, PATCH: 5, other: 1 };
const flat = { GET: 1, HEAD: 1, OPTIONS: 1, DELETE: 1, POST: 1, PUT: 1, PATCH: 1, other: 1 };

export const standardProfile: CostProfile = { base: operations, quantum: 64 * KIB, bandwidth: 1, maxCost: MAX_COST };
/** Charges mainly for operations: 16 MiB cost as much as one read. */
export const iopsProfile: CostProfile = { base: operations, quantum: 16 * MIB, bandwidth: 1, maxCost: MAX_COST };
export const bandwidthProfile: CostProfile = { base: flat, quantum: KIB, bandwidth: 1, maxCost: MAX_COST };

/** All profiles by name. */
export const costProfiles = { standard: standardProfile, iops: iopsProfile, bandwidth: bandwidthProfile };

/** True for a whole number from 0 to 2^53. False for NaN, because all comparisons with it are false. */
export function isSize(bytes: number): boolean {
  return bytes >= 0 && bytes <= MAX_BYTES && Math.floor(bytes) === bytes;
}

/** The method, or "other" if it has no base cost. Compared and not looked up, because clients choose methods. */
export function knownMethod(method: string): keyof CostProfile["base"] {
  if (method === "GET" || method === "POST" || method === "PUT" || method === "HEAD") return method;
  return method === "DELETE" || method === "PATCH" || method === "OPTIONS" ? method : "other";
}

export function baseCost(profile: CostProfile, method: string): number {
  return profile.base[knownMethod(method)];
}

/** The bytes of an exchange that its profile counts. */
export function pricedBytes({ countedBytes }: CostProfile, requestBytes: number, responseBytes: number): number {
  if (countedBytes === "request") return requestBytes;
  return countedBytes === "response" ? responseBytes : requestBytes + responseBytes;
}

/** Whether the size of request bodies matters for the cost. */
export function countsRequests({ countedBytes, bandwidth }: CostProfile): boolean {
  return bandwidth > 0 && countedBytes !== "response";
}

/** Whether the size of response bodies matters for the cost. */
export function countsResponses({ countedBytes, bandwidth }: CostProfile): boolean {
  return bandwidth > 0 && countedBytes !== "request";
}

/** The cost of a request that moved `bytes`, of those that the profile counts, or INVALID_COST. */
export function price(profile: CostProfile, method: string, bytes: number): number {
  if (!isSize(bytes)) return INVALID_COST;
  const cost = baseCost(profile, method) + Math.ceil(bytes / profile.quantum) * profile.bandwidth;
  return Math.min(Math.max(cost, 0), profile.maxCost);
}

/** Moving averages of the body sizes of one app and method. */
export interface LearnedSizes {
  requestBytes: number;
  responseBytes: number;
  /** Exchanges that the averages stand for, at most MOST_SAMPLES. */
  samples: number;
  /** An exchange was added since `checkedAt`. */
  fresh: boolean;
  /** When the age was last checked, in host milliseconds; 0 before the first time. */
  checkedAt: number;
}

export function newLearnedSizes(): LearnedSizes {
  return { requestBytes: 0, responseBytes: 0, samples: 0, fresh: false, checkedAt: 0 };
}

export interface LearnedSizesByMethod {
  [method: string]: LearnedSizes | undefined;
}

/**
 * Sizes learned for a method, on a route with its own prices for this route. Unknown methods share one entry, so that clients
 * cannot grow the table.
 */
export function learnedSizes(byMethod: LearnedSizesByMethod, { route }: CostProfile, method: string): LearnedSizes {
  const known = knownMethod(method);
  const name = route === undefined ? known : `${known} ${route}`;
  let learned = byMethod[name];
  if (learned === undefined) {
    learned = newLearnedSizes();
    byMethod[name] = learned;
  }
  return learned;
}

/** The averages follow a change of sizes within about twenty exchanges. */
const MOST_SAMPLES = 9;
/** Learned sizes halve each time this long has passed without an exchange. */
export const HALF_LIFE_MS = 30000;
/** After this many half-lives less than a byte is left. */
const MOST_HALVINGS = 54;

/** The most bytes that `tokens` can pay for: more need not be expected of a request. */
export function payableBytes(
  { base, quantum, bandwidth, maxCost }: CostProfile,
  method: string,
  tokens: number,
): number {
  if (bandwidth <= 0) return MAX_BYTES;
  const quanta = Math.floor((Math.min(tokens, maxCost) - base[knownMethod(method)]) / bandwidth);
  return Math.min(Math.max(quanta, 0) * quantum, MAX_BYTES);
}

/**
 * Adds the sizes of an exchange that has ended, each at most `mostBytes`. Invalid sizes are ignored. The averages start with
 * one empty exchange, which counts as much as any other: the first size counts half, so that a single large transfer
 * does not become the expectation for all requests that follow.
 */
export function learnSizes(
  learned: LearnedSizes,
  requestBytes: number,
  responseBytes: number,
  mostBytes: number,
): void {
  learned.samples = Math.min(learned.samples + 1, MOST_SAMPLES);
  learned.fresh = true;
  const weight = 1 / (learned.samples + 1);
  if (isSize(requestBytes)) {
    learned.requestBytes = learned.requestBytes + (Math.min(requestBytes, mostBytes) - learned.requestBytes) * weight;
  }
  if (isSize(responseBytes)) {
    learned.responseBytes =
      learned.responseBytes + (Math.min(responseBytes, mostBytes) - learned.responseBytes) * weight;
  }
}

/** A half-life has passed since the last check. A clock that was set back ends it early, so that it cannot last too long. */
export function isCheckDue(learned: LearnedSizes, now: number): boolean {
  return Math.abs(now - learned.checkedAt) >= HALF_LIFE_MS;
}

/**
 * Halves the sizes for each half-life since the last check, except for the one with the last exchange. Refused requests
 * teach nothing: without this, an estimate that gets requests refused would never change.
 */
export function checkAge(learned: LearnedSizes, now: number): void {
  let periods = Math.floor(Math.abs(now - learned.checkedAt) / HALF_LIFE_MS);
  if (learned.fresh) periods = periods - 1;
  if (learned.checkedAt === 0) periods = 0;
  let kept = 1;
  for (let i = 0; i < periods && i < MOST_HALVINGS; i++) kept = kept / 2;
  learned.requestBytes = learned.requestBytes * kept;
  learned.responseBytes = learned.responseBytes * kept;
  learned.samples = learned.samples * kept;
  learned.fresh = false;
  learned.checkedAt = now;
}

/** The cost to take before the request runs. `contentLength` is the declared one or UNKNOWN_LENGTH; INVALID_COST if invalid. */
export function estimate(profile: CostProfile, method: string, contentLength: number, learned: LearnedSizes): number {
  const requestBytes = contentLength === UNKNOWN_LENGTH ? Math.floor(learned.requestBytes) : contentLength;
  if (!isSize(requestBytes)) return INVALID_COST;
  return price(
    profile,
    method,
    Math.min(pricedBytes(profile, requestBytes, Math.floor(learned.responseBytes)), MAX_BYTES),
  );
}

/** The part of an estimate that does not depend on learned sizes. */
export function declaredCost(profile: CostProfile, method: string, contentLength: number): number {
  return price(profile, method, contentLength === UNKNOWN_LENGTH ? 0 : pricedBytes(profile, contentLength, 0));
}

/** No valid cost has more digits. */
const LONGEST_COST = 7;

/**
 * The cost that a backend states in a response header, or INVALID_COST if it is not a whole number from 0 to MAX_COST. The
 * caller must not pass the value of a header that was sent more than once.
 */
export function reportedCost(text: string): number {
  const cost = text.length > LONGEST_COST ? INVALID_COST : wholeNumber(text);
  return cost >= 0 && cost <= MAX_COST ? cost : INVALID_COST;
}

/** Tokens to charge (positive) or to refund (negative) when the exchange has ended; 0 if a cost is invalid. */
export function settlement(estimatedCost: number, actualCost: number): number {
  if (estimatedCost === INVALID_COST || actualCost === INVALID_COST) return 0;
  return actualCost - estimatedCost;
}

/** Relative error of the estimate: 0 if exact, 1 if the actual cost was twice as much or zero. */
export function deviation(estimatedCost: number, actualCost: number): number {
  return Math.abs(actualCost - estimatedCost) / Math.max(estimatedCost, 1);
}
