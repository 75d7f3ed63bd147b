/** Emergency: what each priority keeps while the cluster is short, and when the emergency begins and ends by itself. */
/** Used part of the cluster's bucket at which the emergency begins by itself. */
export const EMERGENCY_ON_USAGE = 0.95;
/** Used part below which it ends, once it has stayed there for the cool-down. */
export const EMERGENCY_OFF_USAGE = 0.8;

export const BY_NOBODY = "none";
export const BY_OPERATOR = "operator";
export const BY_USAGE = "usage";

export interface Emergency {
  active: boolean;
  /** Who turned it on: BY_OPERATOR, BY_USAGE or BY_NOBODY. */
  source: string;
  /** Microseconds on the store's clock. */
  since: number;
  /** When it ends by itself; 0 for no such time. */
  until: number;
  /** Since when usage has been low enough to end it; 0 while it is not. */
  calmSince: number;
}

/** The part of its quota that a priority keeps. */
export function emergencyRatio(priority: number): number {
  if (priority <= 0) return 1;
  if (priority === 1) return 0.5;
  if (priority === 2) return 0.1;
  return 0;
}

/** What is left of a limit in micro-tokens: bucket and refill shrink alike, to whole micro-tokens. */
export function scaled(limit: number, ratio: number): number {
  return Math.floor(limit * ratio);
}

/** True while it is on and has not run out. A clock that stepped back does not end it early. */
export function isActive(emergency: Emergency, now: number): boolean {
  return emergency.active && (emergency.until === 0 || now < emergency.until);
}

/** The used part of a bucket, 0 to 1. An overdrawn one is used up. */
export function usage(tokens: number, capacity: number): number {
  if (capacity <= 0) return 1;
  return Math.min(Math.max(1 - tokens / capacity, 0), 1);
}

/**
 * What the emergency becomes at this usage. The operator's own ends by expiry or by the operator alone; the automatic
 * one ends when usage has stayed below the lower line for the cool-down. Times in microseconds.
 */
export function nextEmergency(emergency: Emergency, used: number, now: number, cooldown: number): Emergency {
  if (!isActive(emergency, now)) {
    if (used < EMERGENCY_ON_USAGE) return { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
    return { active: true, source: BY_USAGE, since: now, until: 0, calmSince: 0 };
  }
  if (emergency.source === BY_OPERATOR) return emergency;
  if (used >= EMERGENCY_OFF_USAGE) {
    return { active: true, source: BY_USAGE, since: emergency.since, until: emergency.until, calmSince: 0 };
  }
  const steppedBack = emergency.calmSince > now;
  const calmSince = emergency.calmSince === 0 || steppedBack ? now : emergency.calmSince;
  if (now - calmSince >= cooldown) return { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
  return { active: true, source: BY_USAGE, since: emergency.since, until: emergency.until, calmSince };
}
