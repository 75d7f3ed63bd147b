/**
 * Charges a transfer of unknown length while it runs: which tokens are due before more bytes may pass, and how long the transfer
 * waits for them. Without I/O: the host takes the tokens, holds the bytes back and measures the time.
 */

import type { AppLimits, UnknownLength } from "../core/app-limits.js";
import { COST_EXCEEDS_CAPACITY } from "../core/codes.js";
import { type CostProfile, MAX_BYTES, payableBytes, price } from "../core/cost.js";

/** One per exchange or connection, for all its directions of unknown length. */
export interface Metering {
  /** Bytes that are charged so far: those that have passed, and those that are held back. */
  bytes: number;
  /** Tokens taken, in addition to those of the decision. */
  taken: number;
  /** When bytes or tokens last arrived, in host milliseconds. */
  progressMs: number;
  /** It has had to wait for tokens that were refused. */
  delayed: boolean;
}

/** What the bytes cost, and what the decision has taken for them. */
export interface MeteredPrice {
  method: string;
  profile: CostProfile;
  cost: number;
}

/** The refusal of tokens that are due. */
export interface MeterRefusal {
  code: string;
  retryAfterMs: number;
}

/** When the refusal arrived, and after which time without a token the transfer is refused. */
export interface MeterPatience {
  now: number;
  patienceMs: number;
}

/** The transfer waits no longer. */
export const REFUSED = -1;

/** With "delay", refused tokens are requested again after their Retry-After, within these bounds. */
const SHORTEST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1000;
/** Share of the burst that is taken at once at most, so that a bucket that others use as well is sufficient. */
const LARGEST_SHARE = 0.25;

/** Whether transfers of unknown length are charged while they run. */
export function isMetered({ unknownLength, dryRun }: AppLimits, { bandwidth }: CostProfile): boolean {
  return unknownLength !== undefined && unknownLength !== "charge" && !dryRun && bandwidth > 0;
}

/** @param bytes those that are known before the transfer */
export function newMetering(bytes: number): Metering {
  return { bytes, taken: 0, progressMs: 0, delayed: false };
}

/**
 * Tokens to take before all bytes may pass; none if this is not positive. Each complete quantum is paid; the last one, which is
 * incomplete, is charged by the settlement. A small body is therefore never delayed or aborted.
 */
export function dueTokens({ bytes, taken }: Metering, { method, profile, cost }: MeteredPrice): number {
  const whole = Math.floor(bytes / profile.quantum) * profile.quantum;
  return price(profile, method, whole) - cost - taken;
}

/** With so many bytes, tokens will be due that are not taken yet. */
export function dueAt({ taken }: Metering, { method, profile, cost }: MeteredPrice): number {
  const paid = cost + taken;
  if (paid >= profile.maxCost) return MAX_BYTES;
  return Math.min(payableBytes(profile, method, paid) + profile.quantum, MAX_BYTES);
}

/** How many of the tokens that are due to take at once, from a bucket of this size. */
export function nextTake(due: number, limit: number): number {
  return Math.min(due, Math.max(Math.floor(limit * LARGEST_SHARE), 1));
}

/** After how many milliseconds to ask again for refused tokens, or REFUSED. */
export function pauseMs(
  metering: Metering,
  policy: UnknownLength | undefined,
  { code, retryAfterMs }: MeterRefusal,
  { now, patienceMs }: MeterPatience,
): number {
  const left = metering.progressMs + patienceMs - now;
  if (policy === "cut" || left <= 0) return REFUSED;
  metering.delayed = true;
  // A retry takes less if the capacity was reduced meanwhile.
  const retryMs = code === COST_EXCEEDS_CAPACITY ? 0 : retryAfterMs;
  return Math.min(Math.max(retryMs, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS, left);
}
