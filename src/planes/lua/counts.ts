/** Counters of a Lua plane, by app, until they are reported: lists of numbers by name, as in docs/API.md. */
import { OK } from "../../core/codes.js";
import { COST_BOUNDS, knownMethod } from "../../core/cost.js";
import { VALUE_PREFIX } from "../../core/keys.js";
import { splitText, storedNumber, wholeText } from "../../core/platform.js";
import type { Outcome } from "../../engine/account.js";
import type { NodeSummary } from "../../engine/node.js";
import type { PlaneExchange } from "./exchange.js";
import { luaString } from "./library.js";
import { newRecorded, type Recorded, recordRefusal } from "./recent-refusals.js";

/** Numbers that only grow. There are few names: `l3`, latencies, methods, and reasons of refusals. */
export interface Numbers {
  names: string[];
  lists: { [name: string]: number[] | undefined };
}

export interface AppCounts extends Numbers {
  /** Decisions made from the lease or a cached refusal, and all others. */
  l3: number[];
  /** Contains something that is not reported. */
  changed: boolean;
  recorded: Recorded;
}

/** Maximum apps in one batch. */
export const MAX_IN_BATCH = 64;
/** Minimum time between batches, unless the last one was full. */
export const BATCH_PAUSE_MS = 1000;

/** In place of an app id: requests that belong to no app. */
export const NOBODY = "*";

export interface Counted {
  id: string;
  counts: AppCounts;
}

/** Positions in the list of a method. The sum of costs and the number of costs up to each bound follow. */
const ALLOWED = 0;
const REJECTED = 1;
const DRY_RUN = 2;
const COST_SUM = 3;
const COST_COUNTS = 4;
const METHOD_WIDTH = COST_COUNTS + COST_BOUNDS.length + 1;
const OTHER = "OTHER";

export function newNumbers(): Numbers {
  return { names: [], lists: {} };
}

export function newCounts(): AppCounts {
  const l3 = [0, 0];
  return { names: ["l3"], lists: { l3 }, l3, changed: false, recorded: newRecorded() };
}

/** Counters that changed since they were last reported. */
export const tally: { changed: Counted[]; nobody: AppCounts } = { changed: [], nobody: newCounts() };

export function addList(numbers: Numbers, name: string, width: number): number[] {
  const list: number[] = [];
  for (let i = 0; i < width; i++) list[i] = 0;
  numbers.names.push(name);
  numbers.lists[name] = list;
  return list;
}

/** Unknown methods share one list, so that clients cannot grow the table. */
function methodName(method: string): string {
  const name = knownMethod(method);
  return name === "other" ? OTHER : name;
}

/** One number of a list, or 0. */
export function numberOf(numbers: Numbers, name: string, place: number): number {
  const list = numbers.lists[name];
  return list === undefined ? 0 : (list[place] ?? 0);
}

/** Counts a decision for its account. */
export function count(outcome: PlaneExchange & { account: { counts: AppCounts } }): void {
  const { account, source, method, cost, code, allowed } = outcome;
  const { counts } = account;
  const place = source === "local" || source === "cached" ? 0 : 1;
  addAt(counts.l3, place, 1);
  let status = ALLOWED;
  if (code !== OK) status = allowed ? DRY_RUN : REJECTED;
  countRequest(counts, methodName(method), cost, status);
  if (status !== ALLOWED) {
    countReason(counts, status === REJECTED ? code : `dry_run_${code}`, outcome.limitName);
    recordRefusal(outcome, counts.recorded);
  }
  if (!counts.changed) markChanged(account.limits.id, counts);
}

/** `limitName`: the limit that refused; empty if it was not one of `limits`. */
function countReason(counts: AppCounts, reason: string, limitName: string): void {
  countRefusal(counts, reason);
  if (limitName === "") return;
  countRefusal(counts, `limit_${reason}`);
  countRefusal(changedLimit(limitName), reason);
}

/** By name of the limit. */
const limitCounts: { [name: string]: AppCounts | undefined } = {};
const LIMIT_REQUESTS = "requests";

/** Counts the outcome of a request at one of its limits. */
export function countLimit({ code, allowed }: Outcome, name: string): void {
  const counts = changedLimit(name);
  const list = counts.lists[LIMIT_REQUESTS] ?? addList(counts, LIMIT_REQUESTS, DRY_RUN + 1);
  let status = ALLOWED;
  if (code !== OK) status = allowed ? DRY_RUN : REJECTED;
  addAt(list, status, 1);
}

/** The counters of a limit, to be added to. */
function changedLimit(name: string): AppCounts {
  let counts = limitCounts[name];
  if (counts === undefined) {
    counts = newCounts();
    limitCounts[name] = counts;
  }
  if (!counts.changed) markChanged(limitCountsId(name), counts);
  return counts;
}

/** In place of an app id. */
export function limitCountsId(name: string): string {
  return VALUE_PREFIX + name;
}

/** Requests at a limit: allowed, rejected, or admitted by a dry run. */
export function limitRequests(numbers: Numbers, status: "allowed" | "rejected" | "dry_run_rejected"): number {
  const place = status === "allowed" ? ALLOWED : status === "rejected" ? REJECTED : DRY_RUN;
  return numberOf(numbers, LIMIT_REQUESTS, place);
}

function countRequest(counts: AppCounts, name: string, cost: number, status: number): void {
  const list = counts.lists[name] ?? addList(counts, name, METHOD_WIDTH);
  addAt(list, status, 1);
  addAt(list, COST_SUM, cost);
  countBucket(list, COST_COUNTS, COST_BOUNDS, cost, 1);
}

/** Counts a value `times` in a histogram: from `first`, the list has a number per bound, and one for larger values. */
export function countBucket(
  list: number[],
  first: number,
  bounds: readonly number[],
  value: number,
  times: number,
): void {
  // Not `for … of`: LuaJIT leaves compiled code for it.
  let bucket = 0;
  while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
  addAt(list, first + bucket, times);
}

function countRefusal(counts: AppCounts, code: string): void {
  addAt(counts.lists[code] ?? addList(counts, code, 1), 0, 1);
}

/** Adds to one of the numbers of a list. */
export function addAt(list: number[], place: number, by: number): void {
  list[place] = list[place]! + by;
}

/** Counts a request that was refused before its app was known. */
export function countNobody(code: string): void {
  const counts = nobodysCounts();
  addAt(counts.l3, 0, 1);
  countRequest(counts, OTHER, 0, REJECTED);
  countRefusal(counts, code);
}

/** Counters of no app, to be added to. */
export function nobodysCounts(): AppCounts {
  const { nobody } = tally;
  if (!nobody.changed) markChanged(NOBODY, nobody);
  return nobody;
}

function markChanged(id: string, counts: AppCounts): void {
  counts.changed = true;
  tally.changed.push({ id, counts });
}

/** Clears counters after they have been passed on. */
export function clearCounts(counts: AppCounts): void {
  for (const name of counts.names) {
    const list = counts.lists[name]!;
    for (let i = 0; i < list.length; i++) list[i] = 0;
  }
  counts.changed = false;
}

/** `name=n,n,…` for each list with a number other than 0; trailing zeros are omitted. */
export function numbersText(numbers: Numbers): string {
  let text = "";
  for (const name of numbers.names) {
    const list = numbers.lists[name]!;
    let width = list.length;
    while (width > 0 && list[width - 1] === 0) width--;
    for (let i = 0; i < width; i++) {
      text = text + (i === 0 ? `${text === "" ? "" : " "}${name}=` : ",") + wholeText(list[i]!);
    }
  }
  return text;
}

/** What a Lua plane knows about itself. */
export interface PlaneState {
  /** Milliseconds; the times of refusals refer to it. */
  clock: number;
  /** The versions of the configuration that the service and the plane have; "-" for the service before its first reply. */
  serviceVersion: string;
  ownVersion: string;
}

/** The state of a node, for the services, without the end of the line: see docs/API.md. */
export function nodeText({ level, emergency, syncs, failures }: NodeSummary, plane: PlaneState): string {
  const text = "#node level=%d emergency=%d syncs=%.0f failed_syncs=%.0f clock=%.0f outdated=%d";
  const { clock, serviceVersion, ownVersion } = plane;
  const outdated = serviceVersion !== "-" && serviceVersion !== ownVersion;
  return luaString.format(text, level, emergency ? 1 : 0, syncs, failures, Math.floor(clock), outdated ? 1 : 0);
}

/** Adds the numbers of such a text. */
export function addNumbersText(sum: Numbers, text: string): void {
  if (text === "") return;
  for (const word of splitText(text, " ")) {
    const parts = splitText(word, "=");
    const values = splitText(parts[1]!, ",");
    const list = sum.lists[parts[0]!] ?? addList(sum, parts[0]!, values.length);
    for (let i = 0; i < values.length; i++) {
      const before = i < list.length ? list[i]! : 0;
      list[i] = before + storedNumber(values[i]!, 0);
    }
  }
}

/** Requests of all methods. Those of a dry run count as allowed. */
export function sumOf(numbers: Numbers, status: "allowed" | "rejected"): number {
  let sum = 0;
  for (const name of numbers.names) {
    if (name === OTHER || knownMethod(name) === name) {
      const list = numbers.lists[name]!;
      if (status === "rejected") sum = sum + (list[REJECTED] ?? 0);
      else sum = sum + (list[ALLOWED] ?? 0) + (list[DRY_RUN] ?? 0);
    }
  }
  return sum;
}
