/** What a request costs: before it runs (estimate), after it ran (price), and the difference to settle. */

export interface CostProfile {
  /** Tokens for the operation itself, by method. Methods are case-sensitive, as in HTTP. */
  base: {
    GET: number;
    HEAD: number;
    OPTIONS: number;
    DELETE: number;
    POST: number;
    PUT: number;
    PATCH: number;
    other: number;
  };
  /** Bytes per unit of bandwidth. */
  quantum: number;
  /** Tokens per started quantum. */
  bandwidth: number;
  /** No request costs more than this. */
  maxCost: number;
}

export const MAX_COST = 1000000;
/** By which costs are told apart where they are counted. */
export const COST_BOUNDS: readonly number[] = [1, 2, 5, 10, 25, 50, 100, 500, 1000, 10000, 100000];
export const KIB = 1024;
export const MIB = 1048576;
/** The largest size that a double counts exactly. */
export const MAX_BYTES = 9007199254740992;
/** Answered in the place of a cost where the size is no size. Never reaches a bucket. */
export const INVALID_COST = -1;
/** In the place of a Content-Length: the body is chunked, its length is not known yet. */
export const UNKNOWN_LENGTH = -1;

const operations = { GET: 1, HEAD: 1, OPTIONS: 1, DELETE: 2, POST: 5, PUT: 5, PATCH: 5, other: 1 };
const flat = { GET: 1, HEAD: 1, OPTIONS: 1, DELETE: 1, POST: 1, PUT: 1, PATCH: 1, other: 1 };

export const standardProfile: CostProfile = { base: operations, quantum: 64 * KIB, bandwidth: 1, maxCost: MAX_COST };
/** Prices operations; sixteen megabytes weigh as much as one read. */
export const iopsProfile: CostProfile = { base: operations, quantum: 16 * MIB, bandwidth: 1, maxCost: MAX_COST };
export const bandwidthProfile: CostProfile = { base: flat, quantum: KIB, bandwidth: 1, maxCost: MAX_COST };

/** All profiles by name. */
export const costProfiles = { standard: standardProfile, iops: iopsProfile, bandwidth: bandwidthProfile };

/** True for a whole number from 0 to 2^53: what a body can be long. False for NaN, which compares with nothing. */
export function isSize(bytes: number): boolean {
  return bytes >= 0 && bytes <= MAX_BYTES && Math.floor(bytes) === bytes;
}

/** The method, or "other" for one that has no base cost of its own. Methods come from clients: they are compared, not looked up. */
export function knownMethod(method: string): string {
  if (method === "GET" || method === "POST" || method === "PUT" || method === "HEAD") return method;
  return method === "DELETE" || method === "PATCH" || method === "OPTIONS" ? method : "other";
}

export function baseCost(profile: CostProfile, method: string): number {
  const base = profile.base;
  if (method === "GET") return base.GET;
  if (method === "POST") return base.POST;
  if (method === "PUT") return base.PUT;
  if (method === "HEAD") return base.HEAD;
  if (method === "DELETE") return base.DELETE;
  if (method === "PATCH") return base.PATCH;
  if (method === "OPTIONS") return base.OPTIONS;
  return base.other;
}

/** The cost of a request that moved `bytes` (request body plus response body), or INVALID_COST. */
export function price(profile: CostProfile, method: string, bytes: number): number {
  if (!isSize(bytes)) return INVALID_COST;
  const cost = baseCost(profile, method) + Math.ceil(bytes / profile.quantum) * profile.bandwidth;
  return Math.min(Math.max(cost, 0), profile.maxCost);
}

/** What is known of the sizes of one app and method: means that follow the recent past. Negative: nothing yet. */
export interface LearnedSizes {
  requestBytes: number;
  responseBytes: number;
}

export function newLearnedSizes(): LearnedSizes {
  return { requestBytes: -1, responseBytes: -1 };
}

/** How much a new size moves the mean: after about twenty requests the mean has followed a change. */
const LEARNING_RATE = 0.1;

function moveMean(mean: number, bytes: number): number {
  return mean < 0 ? bytes : mean + (bytes - mean) * LEARNING_RATE;
}

/** Notes the sizes of an exchange that ended. Sizes that are no sizes teach nothing. */
export function learnSizes(learned: LearnedSizes, requestBytes: number, responseBytes: number): void {
  if (isSize(requestBytes)) learned.requestBytes = moveMean(learned.requestBytes, requestBytes);
  if (isSize(responseBytes)) learned.responseBytes = moveMean(learned.responseBytes, responseBytes);
}

/**
 * The cost to take before the request runs. `contentLength` is what the client declared, or UNKNOWN_LENGTH for a
 * chunked body; a declared length that is no size gives INVALID_COST.
 */
export function estimate(profile: CostProfile, method: string, contentLength: number, learned: LearnedSizes): number {
  let requestBytes = contentLength;
  if (contentLength === UNKNOWN_LENGTH) requestBytes = Math.floor(Math.max(learned.requestBytes, 0));
  if (!isSize(requestBytes)) return INVALID_COST;
  const responseBytes = Math.floor(Math.max(learned.responseBytes, 0));
  return price(profile, method, Math.min(requestBytes + responseBytes, MAX_BYTES));
}

/** Tokens still to charge (positive) or to give back (negative) once the exchange has ended; 0 if either is no cost. */
export function settlement(estimatedCost: number, actualCost: number): number {
  if (estimatedCost === INVALID_COST || actualCost === INVALID_COST) return 0;
  return actualCost - estimatedCost;
}

/** How far off the estimate was, as a part of it: 0 for exact, 1 for twice as much or nothing at all. */
export function deviation(estimatedCost: number, actualCost: number): number {
  return Math.abs(actualCost - estimatedCost) / Math.max(estimatedCost, 1);
}
