/** What a worker has counted, as its messages tell it: in batches that stay the same until a service has answered. */

import { clearNumbers, numbersText } from "../lua/counts.js";
import { luaString } from "../lua/library.js";
import { type Counted, tally } from "../lua/tally.js";
import { worker } from "./state.js";

/** Apps in one batch at most. */
const MOST_IN_BATCH = 64;
/** A new batch is made no more often, unless the last was full. */
const BATCH_PAUSE_MS = 1000;

interface Told {
  /** Under way; empty where there is none. */
  batch: string;
  number: number;
  at: number;
  syncs: number;
  failedSyncs: number;
}

const told: Told = { batch: "", number: 0, at: 0, syncs: 0, failedSyncs: 0 };

/** The lines at the end of a message. */
export function numbersLines(now: number): string {
  told.syncs = told.syncs + 1;
  const node = luaString.format(
    "#node level=%d emergency=%d syncs=%.0f failed_syncs=%.0f\n",
    worker.level,
    worker.emergency ? 1 : 0,
    told.syncs,
    told.failedSyncs,
  );
  return node + batchText(now);
}

function batchText(now: number): string {
  if (told.batch !== "") return told.batch;
  const elapsed = now - told.at;
  if (elapsed >= 0 && elapsed < BATCH_PAUSE_MS) return "";
  let lines = "";
  const staying: Counted[] = [];
  let taken = 0;
  for (const one of tally.changed) {
    if (taken < MOST_IN_BATCH) {
      lines = `${lines}#app ${one.id} ${numbersText(one.counts)}\n`;
      clearNumbers(one.counts);
      one.counts.changed = false;
      taken = taken + 1;
    } else staying.push(one);
  }
  tally.changed = staying;
  told.at = taken < MOST_IN_BATCH ? now : 0;
  if (lines === "") return "";
  told.number = told.number + 1;
  told.batch = luaString.format("#numbers %d\n", told.number) + lines;
  return told.batch;
}

/** A service has answered the message that ended with these lines, or not. */
export function numbersHeard(heard: boolean): void {
  if (heard) told.batch = "";
  else told.failedSyncs = told.failedSyncs + 1;
}
