/** Degradation level of the store, from 0 (fast) to 3 (unavailable), and what a node does at each level. */
import type { AppLimits } from "./app-limits.js";

export const STORE_OK = 0;
export const STORE_ERROR = 1;
export const STORE_TIMEOUT = 2;

/** Calls are counted in a sliding window of this many slots. */
const SLOTS = 10;
const SLOT_MS = 200;
/** The level falls one step after the window has been better for this long. */
const HOLD_MS = 1000;

/** `index` is the number of the slot since 1970; it distinguishes old slots from the current one. */
function newSlot(index: number) {
  return { index, calls: 0, errors: 0, timeouts: 0, latencyMs: 0 };
}

export interface Degradation {
  level: number;
  slots: ReturnType<typeof newSlot>[];
  /** Since when the window has been better than the level; negative if it is not. */
  calmSince: number;
  /** Set by an operator; applies until `pinnedUntil`. */
  pinnedLevel: number;
  pinnedUntil: number;
}

export function newDegradation(): Degradation {
  const slots = [newSlot(-1)];
  while (slots.length < SLOTS) slots.push(newSlot(-1));
  return { level: 0, slots, calmSince: -1, pinnedLevel: 0, pinnedUntil: 0 };
}

/** Records the result and duration of one call. */
export function observeCall(state: Degradation, now: number, outcome: number, latencyMs: number): void {
  const index = Math.floor(now / SLOT_MS);
  const place = index - Math.floor(index / SLOTS) * SLOTS;
  if (state.slots[place]!.index !== index) state.slots[place] = newSlot(index);
  const slot = state.slots[place]!;
  slot.calls = slot.calls + 1;
  if (outcome === STORE_OK) slot.latencyMs = slot.latencyMs + latencyMs;
  else slot.errors = slot.errors + 1;
  if (outcome === STORE_TIMEOUT) slot.timeouts = slot.timeouts + 1;
}

/** From these mean latencies on, the store is slow (level 1) and very slow (level 2). */
export const SLOW_MS = 10;
export const VERY_SLOW_MS = 100;

/** The calls of the window, and the mean latency of those that succeeded. */
export function recentCalls(state: Degradation, now: number) {
  const newest = Math.floor(now / SLOT_MS);
  const sum = { calls: 0, errors: 0, timeouts: 0, latencyMs: 0 };
  for (const slot of state.slots) {
    if (slot.index > newest - SLOTS && slot.index <= newest) {
      sum.calls = sum.calls + slot.calls;
      sum.errors = sum.errors + slot.errors;
      sum.timeouts = sum.timeouts + slot.timeouts;
      sum.latencyMs = sum.latencyMs + slot.latencyMs;
    }
  }
  sum.latencyMs = sum.latencyMs / Math.max(sum.calls - sum.errors, 1);
  return sum;
}

/** The level of the window: by timeouts and errors first, then by the mean latency of successful calls. */
function windowLevel(state: Degradation, now: number): number {
  const { calls, errors, timeouts, latencyMs } = recentCalls(state, now);
  if (calls === 0) return 0;
  if (timeouts > 0 || errors > calls * 0.5) return 3;
  if (errors >= calls * 0.05 || latencyMs > VERY_SLOW_MS) return 2;
  return latencyMs >= SLOW_MS ? 1 : 0;
}

/** The current level. It rises at once and falls one step at a time. A pinned level replaces it until the pin expires. */
export function degradationLevel(state: Degradation, now: number): number {
  const asked = windowLevel(state, now);
  if (asked >= state.level) {
    state.level = asked;
    state.calmSince = -1;
  } else if (state.calmSince < 0 || state.calmSince > now) {
    state.calmSince = now;
  } else if (now - state.calmSince >= HOLD_MS) {
    state.level = state.level - 1;
    state.calmSince = now;
  }
  return now < state.pinnedUntil ? state.pinnedLevel : state.level;
}

export function pinLevel(state: Degradation, level: number, until: number): void {
  state.pinnedLevel = level;
  state.pinnedUntil = until;
}

/** Factor by which leases are larger at a level, so that there are fewer calls. */
export function leaseFactor(level: number): number {
  if (level >= 2) return 5;
  return level === 1 ? 2 : 1;
}

/** Factor by which the time between reports is longer. */
export function reportFactor(level: number): number {
  return level >= 1 ? 2 : 1;
}

/** Whether a request may wait for the store if the lease is empty. */
export function mayWaitForStore(level: number): boolean {
  return level < 2;
}

type LimitsWithoutStore = Pick<AppLimits, "onStoreFailure" | "guaranteed" | "burst" | "failOpenTokens">;

/** What a node knows about the nodes that decide without the store, and the cap of apps that have none. */
export interface WithoutStoreSituation {
  failOpenTokens: number | undefined;
  liveNodes: number;
}

/** Tokens that a node may admit without the store: `burst` at once, and `rate` per second. */
export interface Allowance {
  rate: number;
  burst: number;
}

/** `open`: the whole limit of the app, or its cap. `local`: an equal part of the limit. `closed`: nothing. */
export function withoutStoreAllowance(app: LimitsWithoutStore, situation: WithoutStoreSituation): Allowance {
  const { onStoreFailure, guaranteed, burst } = app;
  if (onStoreFailure === "open") {
    const cap = app.failOpenTokens ?? situation.failOpenTokens;
    return cap === undefined ? { rate: guaranteed, burst } : { rate: cap, burst: cap };
  }
  const nodes = Math.max(situation.liveNodes, 1);
  if (onStoreFailure === "local") return { rate: guaranteed / nodes, burst: Math.floor(burst / nodes) };
  return { rate: 0, burst: 0 };
}
