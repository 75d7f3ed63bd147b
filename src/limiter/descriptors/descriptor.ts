/** Descriptors that a caller sends, the decision about them, and the time units of limits. */

export const SECONDS = {
  second: 1,
  minute: 60,
  hour: 3_600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
  year: 31_536_000,
} as const;

export type Unit = keyof typeof SECONDS;

export const units = Object.keys(SECONDS) as [Unit, ...Unit[]];

export interface Entry {
  key: string;
  value: string;
}

/** Selects at most one limit. */
export interface Descriptor {
  entries: readonly Entry[];
  /** Overrides the hits of the request. 0 takes nothing and reads the state. */
  hits?: number;
  /** Gives the hits back instead of taking them. Never refused. */
  negative?: boolean;
  /** A limit sent by the caller, which replaces that of the rules. */
  override?: { perUnit: number; unit: Unit };
}

export interface AppliedLimit {
  /** Empty if the rule has no name. */
  name: string;
  /** The domain and the keys of the rule. */
  label?: string;
  /** The rate: so many per unit. */
  perUnit: number;
  unit: Unit;
  /** How many may arrive at once. Default: `perUnit`. */
  burst?: number;
}

/** A rate in the shortest unit in which it is a whole number; otherwise rounded, per year. */
export function perUnitOf(rate: number): { perUnit: number; unit: Unit } {
  for (const unit of units) {
    const perUnit = rate * SECONDS[unit];
    const whole = Math.round(perUnit);
    if (whole >= 1 && Math.abs(perUnit - whole) < 1e-6) return { perUnit: whole, unit };
  }
  return { perUnit: Math.round(rate * SECONDS.year), unit: "year" };
}

export interface DescriptorStatus {
  /** False: over the limit. Always true in shadow mode. */
  allowed: boolean;
  /** A code of core/codes: "ok" or why it was refused. In shadow mode: why it would have been refused. */
  code: string;
  /** Unset if no rule matches, if the rule is unlimited, or if another rule replaces it. */
  limit?: AppliedLimit;
  unlimited: boolean;
  /** Whole tokens; 0 if there is no limit. */
  remaining: number;
  /** Until the bucket is full again. */
  resetMs: number;
  /** 0 if nothing was refused, or if waiting does not help. */
  retryAfterMs: number;
  /** The rule only counts and never refuses. */
  shadow: boolean;
}

export interface DescriptorDecision {
  allowed: boolean;
  /** "ok", or the code of the first refusal. */
  code: string;
  /** One per descriptor, in the same order. */
  statuses: DescriptorStatus[];
  /** Merged metadata of the rules that allowed the request; for Envoy's dynamic metadata. */
  metadata?: Record<string, unknown>;
}
