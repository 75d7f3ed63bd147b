/**
 * Which decisions of a data plane are measured. Reading the clock for each would cost too much, so some are measured, and each of these
 * stands for all decisions since the one before it.
 */

/** Most decisions that a measured one stands for. */
export const MOST_WEIGHT = 64;
/** The wanted time between two measured decisions. */
const LEAST_MS = 5;
const MOST_MS = 50;

/** `left` decisions until the next measured one, which stands for `distance`; the one after it for `next`. */
export interface DecisionSamples {
  left: number;
  distance: number;
  next: number;
  lastMs: number;
}

export function newDecisionSamples(): DecisionSamples {
  return { left: 1, distance: 1, next: 1, lastMs: 0 };
}

/** Called for each decision: for how many decisions it stands; 0 if it is not to be measured. */
export function sampleWeight(samples: DecisionSamples): number {
  samples.left = samples.left - 1;
  if (samples.left > 0) return 0;
  const { distance } = samples;
  samples.distance = samples.next;
  samples.left = samples.next;
  return distance;
}

/** A decision was measured that began at this time: the next ones follow at the wanted distance. */
export function adaptSamples(samples: DecisionSamples, now: number): void {
  const elapsed = now - samples.lastMs;
  samples.lastMs = now;
  if (elapsed < LEAST_MS) samples.next = Math.min(samples.next * 2, MOST_WEIGHT);
  else if (elapsed > MOST_MS) samples.next = Math.max(Math.floor((samples.next * MOST_MS) / elapsed), 1);
}
