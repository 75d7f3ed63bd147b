/** Counts what a worker decides, and hands it to all workers together; who talks to the service adds it up. */
import { addList, addNumbersText, clearNumbers, type Numbers, newNumbers, numbersText } from "../../lua/counts.js";
import { luaString } from "../../lua/library.js";
import { type Counted, NOBODY, nobodysCounts, tally } from "../../lua/tally.js";
import { worker } from "../state.js";

/** To be added to: numbers that belong to no app and are told under a name of their own. */
export function nobodysNumbers(name: string, width: number): number[] {
  const nobody = nobodysCounts();
  return nobody.lists[name] ?? addList(nobody, name, width);
}

const COUNTED = "counted";
const UNTOLD = "untold";

/** Hands on what this worker counted since the last time. What does not fit is handed on the next time. */
export function flushCounts(): void {
  const { changed } = tally;
  if (changed.length === 0) return;
  const staying: Counted[] = [];
  for (const one of changed) {
    const length = worker.dict.lpush(COUNTED, `${one.id} ${numbersText(one.counts)}`);
    if (length === undefined) {
      staying.push(one);
    } else {
      clearNumbers(one.counts);
      one.counts.changed = false;
    }
  }
  tally.changed = staying;
}

function totalKey(id: string): string {
  return `n:${id}`;
}

function untoldKey(id: string): string {
  return `x:${id}`;
}

function addTo(key: string, text: string): boolean {
  const { dict } = worker;
  const before = dict.get(key);
  const sum = newNumbers();
  if (before !== undefined) addNumbersText(sum, before as string);
  addNumbersText(sum, text);
  dict.safe_set(key, numbersText(sum));
  return before === undefined;
}

/** Adds up what workers have handed on. Called by who holds the lock; what is under way when it dies is lost. */
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
    if (addTo(untoldKey(id), text)) dict.lpush(UNTOLD, id);
  }
}

/** All that was counted of an app, as of the last time that somebody added it up. */
export function totalCounts(id: string): Numbers {
  const sum = newNumbers();
  const text = worker.dict.get(totalKey(id));
  if (text !== undefined) addNumbersText(sum, text as string);
  return sum;
}

const BATCH = "batch";
const BATCH_NUMBER = "batch number";
const BATCH_AT = "batch at";
/** Apps in one batch at most. */
const MOST_IN_BATCH = 64;
/** A new one is made no more often, unless the last was full. */
const BATCH_PAUSE_MS = 1000;

/**
 * The lines with which a message tells what was counted; empty where nothing was. They stay the same, with the same
 * number, until a service has answered: so a service that heard them twice counts them once. Needs the lock.
 */
export function batchText(now: number, last: boolean): string {
  const { dict, node } = worker;
  const pending = dict.get(BATCH);
  if (pending !== undefined) return pending as string;
  const elapsed = now - ((dict.get(BATCH_AT) as number | undefined) ?? 0);
  if (!last && elapsed >= 0 && elapsed < BATCH_PAUSE_MS) return "";
  let lines = "";
  let taken = 0;
  for (let id = dict.rpop(UNTOLD); id !== undefined; id = dict.rpop(UNTOLD)) {
    const key = untoldKey(id as string);
    const text = dict.get(key);
    if (text !== undefined) lines = `${lines}#app ${id as string} ${text as string}\n`;
    dict.delete(key);
    taken = taken + 1;
    if (taken >= MOST_IN_BATCH) break;
  }
  dict.safe_set(BATCH_AT, taken < MOST_IN_BATCH ? now : 0);
  if (lines === "") return "";
  // Beginning with the epoch they are never those of an earlier life of this node.
  dict.safe_add(BATCH_NUMBER, node.epoch);
  const batch = luaString.format("#numbers %.0f\n", dict.incr(BATCH_NUMBER, 1) as number) + lines;
  dict.safe_set(BATCH, batch);
  return batch;
}

/** A service has answered a message with these lines. */
export function batchHeard(text: string): void {
  if (text !== "" && worker.dict.get(BATCH) === text) worker.dict.delete(BATCH);
}

/** Ids of all that was ever counted here. */
export function countedIds(): string[] {
  const ids = [NOBODY];
  for (const app of worker.everyone) ids.push(app.limits.id);
  return ids;
}
