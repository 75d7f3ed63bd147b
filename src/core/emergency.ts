/**
 * Emergency: what each priority keeps while tokens of the cluster are scarce, and when it starts and ends by usage.
 *
 * The automatic one has two stages. The first stops bursts and borrowing of all apps, which keep their own rates. The second
 * applies the ratios by priority, and starts only if L1 cannot even pay the own rates.
 */

/** Usage of the cluster's bucket at which the automatic emergency starts. */
export const EMERGENCY_ON_USAGE = 0.95;
/** It ends when usage has stayed below this for the cool-down. */
export const EMERGENCY_OFF_USAGE = 0.8;
/** Its second stage, the ratios by priority, starts after this time of the first one at the earliest. Microseconds. */
export const FIRST_STAGE = 1500000;
/** … and only if L1 could not pay an app's own rate within this time. Microseconds. */
export const OWN_SHORT_RECENTLY = 1000000;

export const BY_NOBODY = "none";
export const BY_OPERATOR = "operator";
export const BY_USAGE = "usage";

/** What an operator stated when starting the emergency. */
export interface EmergencyOrder {
  reason: string;
  operator: string;
}

export interface Emergency {
  active: boolean;
  /** What started it: BY_OPERATOR, BY_USAGE or BY_NOBODY. */
  source: string;
  /** Microseconds on the store's clock. */
  since: number;
  /** Expiry; 0 if it does not expire. */
  until: number;
  /** Since when usage has been low enough to end it; 0 if it is not. */
  calmSince: number;
}

/** The first stage of the automatic emergency. Microseconds on the store's clock. */
export interface StoppedBursts {
  /** 0: bursts are not stopped. */
  since: number;
  /** Since when usage has been low enough to end it; 0 if it is not. */
  calmSince: number;
}

/** The fraction of its quota that a priority keeps. */
export function emergencyRatio(priority: number): number {
  if (priority <= 0) return 1;
  if (priority === 1) return 0.5;
  if (priority === 2) return 0.1;
  return 0;
}

/** A limit in micro-tokens, reduced to the ratio and rounded down. */
export function scaled(limit: number, ratio: number): number {
  return Math.floor(limit * ratio);
}

/** Whether it is on and has not expired. A clock that was set back does not end it early. */
export function isActive(emergency: Emergency, now: number): boolean {
  return emergency.active && (emergency.until === 0 || now < emergency.until);
}

/** Usage of a bucket, from 0 to 1. */
export function usage(tokens: number, capacity: number): number {
  if (capacity <= 0) return 1;
  return Math.min(Math.max(1 - tokens / capacity, 0), 1);
}

/** The first stage at this usage: it starts at once, and ends when usage has stayed low for the cool-down. */
export function nextStoppedBursts(before: StoppedBursts, used: number, now: number, cooldown: number): StoppedBursts {
  if (before.since === 0) return { since: used < EMERGENCY_ON_USAGE ? 0 : now, calmSince: 0 };
  const since = Math.min(before.since, now);
  if (used >= EMERGENCY_OFF_USAGE) return { since, calmSince: 0 };
  const calmSince = calmFrom(before.calmSince, now);
  return now - calmSince >= cooldown ? { since: 0, calmSince: 0 } : { since, calmSince };
}

/** A clock that was set back begins the cool-down anew. */
function calmFrom(calmSince: number, now: number): number {
  return calmSince === 0 || calmSince > now ? now : calmSince;
}

/** What the second stage depends on. */
export interface Strain {
  /** Usage of the cluster's bucket, from 0 to 1. */
  used: number;
  stopped: StoppedBursts;
  /** L1 could not pay an app's own rate recently. */
  ownShort: boolean;
}

/**
 * The emergency with ratios by priority. An operator's emergency ends by expiry or by the operator only. The automatic one
 * starts when the first stage did not help: usage stays high, and L1 cannot pay the own rates, so the rates of all apps are
 * together above the cluster's. It ends when usage has stayed low for the cool-down. Times in microseconds.
 */
export function nextEmergency(emergency: Emergency, strain: Strain, now: number, cooldown: number): Emergency {
  const { used, stopped, ownShort } = strain;
  if (!isActive(emergency, now)) {
    const starts = used >= EMERGENCY_ON_USAGE && ownShort && stopped.since > 0 && now - stopped.since >= FIRST_STAGE;
    if (!starts) return { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
    return { active: true, source: BY_USAGE, since: now, until: 0, calmSince: 0 };
  }
  if (emergency.source === BY_OPERATOR) return emergency;
  if (used >= EMERGENCY_OFF_USAGE) {
    return { active: true, source: BY_USAGE, since: emergency.since, until: emergency.until, calmSince: 0 };
  }
  const calmSince = calmFrom(emergency.calmSince, now);
  if (now - calmSince >= cooldown) return { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
  return { active: true, source: BY_USAGE, since: emergency.since, until: emergency.until, calmSince };
}
