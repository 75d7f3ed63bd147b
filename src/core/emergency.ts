/** Emergency: what each priority keeps while tokens of the cluster are scarce, and when it starts and ends by usage. */

/** Usage of the cluster's bucket at which the automatic emergency starts. */
export const EMERGENCY_ON_USAGE = 0.95;
/** It ends when usage has stayed below this for the cool-down. */
export const EMERGENCY_OFF_USAGE = 0.8;

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

/**
 * The emergency at this usage. An operator's emergency ends by expiry or by the operator only; the automatic one ends when
 * usage has stayed low for the cool-down. Times in microseconds.
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
