/** The lines of a message that report counters, in batches that are repeated until a service has replied. */
import {
  BATCH_PAUSE_MS,
  type Counted,
  clearCounts,
  MAX_IN_BATCH,
  nodeText,
  numbersText,
  tally,
} from "../lua/counts.js";
import { luaString } from "../lua/library.js";
import { worker } from "./state.js";

/** `text` is the batch without a reply yet; empty if there is none. */
const batch = { text: "", number: 0, madeAt: 0 };

export function countersText(now: number): string {
  const elapsed = now - batch.madeAt;
  if (batch.text === "" && (elapsed < 0 || elapsed >= BATCH_PAUSE_MS)) makeBatch(now);
  return `${nodeText(worker.node)}\n${batch.text}`;
}

function makeBatch(now: number): void {
  let lines = "";
  const staying: Counted[] = [];
  let taken = 0;
  for (const one of tally.changed) {
    if (taken < MAX_IN_BATCH) {
      lines = `${lines}#app ${one.id} ${numbersText(one.counts)}\n`;
      clearCounts(one.counts);
      taken = taken + 1;
    } else staying.push(one);
  }
  tally.changed = staying;
  batch.madeAt = taken < MAX_IN_BATCH ? now : 0;
  if (lines === "") return;
  batch.number = batch.number + 1;
  batch.text = luaString.format("#numbers %d\n", batch.number) + lines;
}

/** A service has replied to the message with the batch. */
export function batchReceived(): void {
  batch.text = "";
}
