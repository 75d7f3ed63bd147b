/** Degradation: how well the store answers, as a level from 0 to 3, and what a data plane does at each level. */

export const STORE_OK = 0;
export const STORE_ERROR = 1;
export const STORE_TIMEOUT = 2;

export const OPEN = "open";
export const LOCAL = "local";
export const CLOSED = "closed";

export interface DegradationOptions {
  /** The window that counts, in slots. */
  slotMs: number;
  slots: number;
  /** A level is left, one step down, once the window has asked for less for this long. */
  holdMs: number;
}

export const defaultDegradationOptions: DegradationOptions = { slotMs: 200, slots: 10, holdMs: 1000 };

interface Slot {
  /** The number of the slot since 1970: tells an old slot from the current one. */
  index: number;
  calls: number;
  errors: number;
  timeouts: number;
  latencyMs: number;
}

export interface Degradation {
  level: number;
  slots: Slot[];
  /** Since when the window has asked for a lower level; negative while it does not. */
  calmSince: number;
  /** An operator's choice, while `now` is before `pinnedUntil`. */
  pinnedLevel: number;
  pinnedUntil: number;
}

export function newDegradation(policy: DegradationOptions): Degradation {
  const slots: Slot[] = [];
  for (let i = 0; i < policy.slots; i++) slots.push({ index: -1, calls: 0, errors: 0, timeouts: 0, latencyMs: 0 });
  return { level: 0, slots, calmSince: -1, pinnedLevel: 0, pinnedUntil: 0 };
}

/** Notes one call of the store: how it ended and how long it took. */
export function observeCall(
  state: Degradation,
  policy: DegradationOptions,
  now: number,
  outcome: number,
  latencyMs: number,
): void {
  const index = Math.floor(now / policy.slotMs);
  const slot = state.slots[index - Math.floor(index / policy.slots) * policy.slots]!;
  if (slot.index !== index) {
    slot.index = index;
    slot.calls = 0;
    slot.errors = 0;
    slot.timeouts = 0;
    slot.latencyMs = 0;
  }
  slot.calls = slot.calls + 1;
  if (outcome === STORE_OK) slot.latencyMs = slot.latencyMs + latencyMs;
  else slot.errors = slot.errors + 1;
  if (outcome === STORE_TIMEOUT) slot.timeouts = slot.timeouts + 1;
}

/** The level that the window asks for: timeouts and errors first, then the mean latency of the calls that succeeded. */
function windowLevel(state: Degradation, policy: DegradationOptions, now: number): number {
  const newest = Math.floor(now / policy.slotMs);
  let calls = 0;
  let errors = 0;
  let timeouts = 0;
  let latencyMs = 0;
  for (const slot of state.slots) {
    if (slot.index > newest - policy.slots && slot.index <= newest) {
      calls = calls + slot.calls;
      errors = errors + slot.errors;
      timeouts = timeouts + slot.timeouts;
      latencyMs = latencyMs + slot.latencyMs;
    }
  }
  if (calls === 0) return 0;
  if (timeouts > 0 || errors > calls * 0.5) return 3;
  const mean = latencyMs / Math.max(calls - errors, 1);
  if (errors >= calls * 0.05 || mean > 100) return 2;
  return mean >= 10 ? 1 : 0;
}

/**
 * The level now. It rises at once to what the window asks for, and falls one level at a time. A pinned level stands
 * as long as it is pinned; what is measured meanwhile counts afterwards.
 */
export function degradationLevel(state: Degradation, policy: DegradationOptions, now: number): number {
  const asked = windowLevel(state, policy, now);
  if (asked >= state.level) {
    state.level = asked;
    state.calmSince = -1;
  } else if (state.calmSince < 0 || state.calmSince > now) {
    state.calmSince = now;
  } else if (now - state.calmSince >= policy.holdMs) {
    state.level = state.level - 1;
    state.calmSince = now;
  }
  return now < state.pinnedUntil ? state.pinnedLevel : state.level;
}

export function pinLevel(state: Degradation, level: number, until: number): void {
  state.pinnedLevel = level;
  state.pinnedUntil = until;
}

/** How many times larger leases are at a level, so that the store is asked less. */
export function leaseFactor(level: number): number {
  if (level >= 2) return 5;
  return level === 1 ? 2 : 1;
}

/** How many times longer the pause between reports is. */
export function reportFactor(level: number): number {
  return level >= 1 ? 2 : 1;
}

/** Whether a request whose lease is empty may wait for the store. */
export function mayWaitForStore(level: number): boolean {
  return level < 2;
}

/**
 * Tokens that one node may admit per second for an app while the store is gone (level 3): a fixed allowance when
 * `open`, the app's own rate divided among the nodes last seen alive when `local`, none when `closed`.
 */
export function withoutStoreAllowance(
  policy: string,
  failOpenTokens: number,
  guaranteed: number,
  liveNodes: number,
): number {
  if (policy === OPEN) return failOpenTokens;
  if (policy === LOCAL) return Math.floor(guaranteed / Math.max(liveNodes, 1));
  return 0;
}
