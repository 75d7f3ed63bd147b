/**
 * Outages of the store as the store itself sees them, and the refill that buckets lost in them. Nodes admit requests without
 * the store and report that afterwards, as overdraft. A bucket that is charged for it at once would lack the refill that did not
 * fit meanwhile: so that refill, and nothing more, pays for overdraft for a while.
 */
import { MAX_TOKENS, MICRO } from "./bucket.js";

/** Nodes and services use the store every second, and mostly more often. Without any call for this long, it was not available. */
const SHORTEST_OUTAGE = 1500000;
/** All nodes report within this time after an outage: they reconnect and retry at least every second. */
const REPORTING_TIME = 10000000;
/** As much as a bucket can owe, in micro-tokens. */
export const MOST_SPARE = MAX_TOKENS * MICRO;

/** Microseconds on the store's clock. Outages that follow each other within the reporting time are one. */
export interface Outage {
  from: number;
  /** When the store was used again; 0: there was no outage. */
  to: number;
}

/**
 * The outage that a call at `now` finds, where `last` is the time of the call before, and `known` an earlier outage. A store that
 * has lost its data does not know when it was last used (0): then its buckets are new and full, and were so for any time.
 */
export function outageAt(known: Outage, last: number, now: number): Outage {
  if (now - last <= SHORTEST_OUTAGE) return known;
  const continues = known.from > 0 && isReportTime(known.to, last);
  return { from: continues ? known.from : last, to: now };
}

/** Whether nodes may still have to report what they spent before the store was back at `to`. */
export function isReportTime(to: number, now: number): boolean {
  return now >= to && now - to <= REPORTING_TIME;
}

/** What of the refill that a bucket lost between `last` and now was lost in the outage. Micro-tokens, like `lost`. */
export function spareRefill(lost: number, rate: number, last: number, outage: Outage): number {
  const micros = Math.max(outage.to - Math.max(last, outage.from), 0);
  return Math.floor(Math.min(lost, micros * (rate / MICRO)));
}

/** Whole tokens of an overdraft that spare refill pays. */
export function paidBySpare(spare: number, spent: number): number {
  return Math.min(spent, Math.floor(spare / MICRO));
}
