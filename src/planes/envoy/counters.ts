/** The lines of a message that report counters, in batches that are repeated until a service has replied. */
import { summaryOf } from "../../engine/node.js";
import {
  BATCH_PAUSE_MS,
  type Counted,
  clearCounts,
  MAX_IN_BATCH,
  nodeText,
  numbersText,
  tally,
} from "../lua/counts.js";
import { luaString, luaTable } from "../lua/library.js";
import { takeRefusals } from "../lua/recent-refusals.js";
import { type EnvoyNode, worker } from "./state.js";

/** `text` is the batch without a reply yet; empty if all have one. */
const batch = { text: "", number: 0, madeAt: 0 };
/** The node whose message in flight has the batch, and the end of its deadline. */
const carrier: { node: EnvoyNode | undefined; until: number } = { node: undefined, until: 0 };

/** The lines for a message of this node, which may be in flight until `until`. Only one message in flight has the batch. */
export function countersText(node: EnvoyNode, now: number, until: number): string {
  const { configVersion: serviceVersion, options } = worker;
  const plane = { clock: now, serviceVersion, ownVersion: options.configVersion };
  const state = `${nodeText(summaryOf(node), plane)}\n`;
  if (carrier.node !== undefined && carrier.node !== node && now < carrier.until) return state;
  const elapsed = now - batch.madeAt;
  if (batch.text === "" && (elapsed < 0 || elapsed >= BATCH_PAUSE_MS)) makeBatch(now);
  carrier.node = node;
  carrier.until = until;
  return state + batch.text;
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
  lines = lines + luaTable.concat(takeRefusals());
  batch.number = batch.number + 1;
  batch.text = luaString.format("#numbers %d\n", batch.number) + lines;
}

/** The message of the node has ended. Without a reply, the next message has the batch again. */
export function messageEnded(node: EnvoyNode, replied: boolean): void {
  if (carrier.node !== node) return;
  carrier.node = undefined;
  if (replied) batch.text = "";
}
