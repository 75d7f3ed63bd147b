/** The cost of a request: estimated before it runs, priced after it ran, and the difference to settle. */

export interface CostProfile {
  /** Tokens for the operation itself, by method. Methods are case-sensitive, as in HTTP. */
  base: Record<"GET" | "HEAD" | "OPTIONS" | "DELETE" | "POST" | "PUT" | "PATCH" | "other", number>;
  /** Bytes per unit of bandwidth. */
  quantum: number;
  /** Tokens per started quantum. */
  bandwidth: number;
  /** No request costs more than this. */
  maxCost: number;
}

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

/** The cost of a request that moved `bytes` (request body plus response body), or INVALID_COST. */
export function price(profile: CostProfile, method: string, bytes: number): number {
  if (!isSize(bytes)) return INVALID_COST;
  const cost = baseCost(profile, method) + Math.ceil(bytes / profile.quantum) * profile.bandwidth;
  return Math.min(Math.max(cost, 0), profile.maxCost);
}

/** Moving averages of the body sizes of one app and method; negative before the first exchange. */
export interface LearnedSizes {
  requestBytes: number;
  responseBytes: number;
}

export function newLearnedSizes(): LearnedSizes {
  return { requestBytes: -1, responseBytes: -1 };
}

export interface LearnedSizesByMethod {
  [method: string]: LearnedSizes | undefined;
}

/** Sizes learned for a method. Unknown methods share one entry, so that clients cannot grow the table. */
export function learnedSizes(byMethod: LearnedSizesByMethod, method: string): LearnedSizes {
  const name = knownMethod(method);
  let learned = byMethod[name];
  if (learned === undefined) {
    learned = newLearnedSizes();
    byMethod[name] = learned;
  }
  return learned;
}

/** Weight of a new size: the average follows a change within about twenty requests. */
const LEARNING_RATE = 0.1;

function moveMean(mean: number, bytes: number): number {
  return mean < 0 ? bytes : mean + (bytes - mean) * LEARNING_RATE;
}

/** Adds the sizes of an exchange that has ended. Invalid sizes are ignored. */
export function learnSizes(learned: LearnedSizes, requestBytes: number, responseBytes: number): void {
  if (isSize(requestBytes)) learned.requestBytes = moveMean(learned.requestBytes, requestBytes);
  if (isSize(responseBytes)) learned.responseBytes = moveMean(learned.responseBytes, responseBytes);
}

/** The cost to take before the request runs. `contentLength` is the declared one or UNKNOWN_LENGTH; INVALID_COST if invalid. */
export function estimate(profile: CostProfile, method: string, contentLength: number, learned: LearnedSizes): number {
  let requestBytes = contentLength;
  if (contentLength === UNKNOWN_LENGTH) requestBytes = Math.floor(Math.max(learned.requestBytes, 0));
  if (!isSize(requestBytes)) return INVALID_COST;
  const responseBytes = Math.floor(Math.max(learned.responseBytes, 0));
  return price(profile, method, Math.min(requestBytes + responseBytes, MAX_BYTES));
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
