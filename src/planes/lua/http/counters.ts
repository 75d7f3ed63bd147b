/** Adds up the counters of all workers; the worker that sends a sync reports them. */
import {
  addList,
  addNumbersText,
  BATCH_PAUSE_MS,
  type Counted,
  clearCounts,
  MAX_IN_BATCH,
  NOBODY,
  type Numbers,
  newNumbers,
  nobodysCounts,
  numbersText,
  tally,
} from "../counts.js";
import { luaString } from "../library.js";
import { MAX_REFUSALS, takeRefusals } from "../recent-refusals.js";
import { firstNode, worker } from "./state.js";

/** A list of counters that belong to no app, to be added to. */
export function nobodysNumbers(name: string, width: number): number[] {
  const nobody = nobodysCounts();
  return nobody.lists[name] ?? addList(nobody, name, width);
}

const COUNTED = "counted";
const UNREPORTED = "untold";
const REFUSED = "refused";

/** Passes on what this worker counted. What does not fit into shared memory is passed on the next time. */
export function flushCounts(): void {
  const { changed } = tally;
  if (changed.length === 0) return;
  const staying: Counted[] = [];
  for (const one of changed) {
    const length = worker.dict.lpush(COUNTED, `${one.id} ${numbersText(one.counts)}`);
    if (length === undefined) staying.push(one);
    else clearCounts(one.counts);
  }
  tally.changed = staying;
  for (const line of takeRefusals()) {
    const length = worker.dict.lpush(REFUSED, line);
    // The oldest is dropped. If shared memory is full, the new one is.
    if (length !== undefined && length > MAX_REFUSALS) worker.dict.rpop(REFUSED);
  }
}

function totalKey(id: string): string {
  return `n:${id}`;
}

function unreportedKey(id: string): string {
  return `x:${id}`;
}

function readNumbers(key: string): Numbers {
  const sum = newNumbers();
  const text = worker.dict.get(key);
  if (text !== undefined) addNumbersText(sum, text as string);
  return sum;
}

/** Returns whether the key is new. */
function addTo(key: string, text: string): boolean {
  const sum = readNumbers(key);
  const isNew = sum.names.length === 0;
  addNumbersText(sum, text);
  worker.dict.safe_set(key, numbersText(sum));
  return isNew;
}

/** Adds up what the workers passed on. Called with the lock of the first shard; if the worker dies meanwhile, the counts are lost. */
export function addUpCounts(): void {
  const { dict } = worker;
  flushCounts();
  const sums: { [id: string]: Numbers | undefined } = {};
  const ids: string[] = [];
  for (let text = dict.rpop(COUNTED); text !== undefined; text = dict.rpop(COUNTED)) {
    const space = luaString.find(text as string, " ", 1, true)!;
    const id = luaString.sub(text as string, 1, space - 1);
    let sum = sums[id];
    if (sum === undefined) {
      sum = newNumbers();
      sums[id] = sum;
      ids.push(id);
    }
    addNumbersText(sum, luaString.sub(text as string, space + 1, -1));
  }
  for (const id of ids) {
    const text = numbersText(sums[id]!);
    addTo(totalKey(id), text);
    if (addTo(unreportedKey(id), text)) dict.lpush(UNREPORTED, id);
  }
}

/** The counters of an app as of the last sync. */
export function totalCounts(id: string): Numbers {
  return readNumbers(totalKey(id));
}

const BATCH = "batch";
const BATCH_NUMBER = "batch number";
const BATCH_AT = "batch at";

/**
 * The lines of a message that report counters; empty if there are none. They keep their number until a service has
 * replied, so that a service that receives them twice counts them once. Needs the lock of the first shard.
 */
export function batchText(now: number, last: boolean): string {
  const { dict } = worker;
  const pending = dict.get(BATCH);
  if (pending !== undefined) return pending as string;
  const elapsed = now - ((dict.get(BATCH_AT) as number | undefined) ?? 0);
  if (!last && elapsed >= 0 && elapsed < BATCH_PAUSE_MS) return "";
  let lines = "";
  let taken = 0;
  for (let id = dict.rpop(UNREPORTED); id !== undefined; id = dict.rpop(UNREPORTED)) {
    const key = unreportedKey(id as string);
    const text = dict.get(key);
    if (text !== undefined) lines = `${lines}#app ${id as string} ${text as string}\n`;
    dict.delete(key);
    taken = taken + 1;
    if (taken >= MAX_IN_BATCH) break;
  }
  dict.safe_set(BATCH_AT, taken < MAX_IN_BATCH ? now : 0);
  // Workers may have added more than the maximum meanwhile: the rest follows with the next batch.
  for (let i = 0; i < MAX_REFUSALS; i++) {
    const line = dict.rpop(REFUSED);
    if (line === undefined) break;
    lines = lines + (line as string);
  }
  if (lines === "") return "";
  // Numbers start with the epoch, so that they are not reused after a restart.
  dict.safe_add(BATCH_NUMBER, firstNode().epoch);
  const batch = luaString.format("#numbers %.0f\n", dict.incr(BATCH_NUMBER, 1) as number) + lines;
  dict.safe_set(BATCH, batch);
  return batch;
}

/** A service has replied to a message with these lines. */
export function batchReceived(text: string): void {
  if (text !== "" && worker.dict.get(BATCH) === text) worker.dict.delete(BATCH);
}

export function countedIds(): string[] {
  const ids = [NOBODY];
  for (const { limits } of worker.accounts) if (limits.fillSeconds === undefined) ids.push(limits.id);
  return ids;
}
