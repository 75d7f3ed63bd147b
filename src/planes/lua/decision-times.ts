/** How long decisions take, until they are reported. */
import { LATENCY_BOUNDS_SECONDS } from "../../core/latency.js";
import type { Outcome } from "../../engine/account.js";
import { adaptSamples, newDecisionSamples, sampleWeight } from "../../engine/decision-samples.js";
import { type AppCounts, addAt, addList, countBucket } from "./counts.js";

/** A decision without the store that took this long has waited for it. */
const WAITED_MS = 1;
const samples = newDecisionSamples();

/** Called for each decision: for how many decisions it stands; 0 if it is not to be measured. */
export function decisionWeight(): number {
  return sampleWeight(samples);
}

type Counted = Outcome & { account: { counts: AppCounts } };

/** The decision of this weight has ended. It is already counted. */
export function countDecisionTime(outcome: Counted, weight: number, startedMs: number, endedMs: number): void {
  adaptSamples(samples, startedMs);
  const ms = Math.max(endedMs - startedMs, 0);
  const { source, account } = outcome;
  const hasWaited = source === "remote" || (source === "without_store" && ms >= WAITED_MS);
  addTime(account.counts, hasWaited ? "latency_remote" : "latency_local", weight, ms);
}

/** The sum in nanoseconds, then the number of decisions up to each bound. */
function addTime(counts: AppCounts, name: string, weight: number, ms: number): void {
  const list = counts.lists[name] ?? addList(counts, name, LATENCY_BOUNDS_SECONDS.length + 2);
  addAt(list, 0, Math.floor(ms * weight * 1e6));
  countBucket(list, 1, LATENCY_BOUNDS_SECONDS, ms / 1000, weight);
}
