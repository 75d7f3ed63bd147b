/** What a data plane counts of one app until it has told it: lists of numbers by name, as `docs/API.md` has them. */
import { OK } from "../../core/codes.js";
import { COST_BOUNDS } from "../../core/cost.js";
import { splitText, storedNumber, wholeText } from "../../core/platform.js";

/** Numbers that only grow. The names are few: `l3`, methods, and codes of refusals. */
export interface Numbers {
  names: string[];
  lists: { [name: string]: number[] | undefined };
}

export interface AppCounts extends Numbers {
  /** Decisions made from the lease or a remembered refusal, and all others. */
  l3: number[];
  /** Since they were last told. */
  changed: boolean;
}

/** Where things stand in the list of a method; then follow the sum of costs and how many were up to each bound. */
const ALLOWED = 0;
const REJECTED = 1;
const DRY_RUN = 2;
const COST_SUM = 3;
const COST_COUNTS = 4;
const METHOD_WIDTH = COST_COUNTS + COST_BOUNDS.length + 1;

const known: { [method: string]: true | undefined } = {
  GET: true,
  HEAD: true,
  OPTIONS: true,
  DELETE: true,
  POST: true,
  PUT: true,
  PATCH: true,
};

export function newNumbers(): Numbers {
  return { names: [], lists: {} };
}

export function newCounts(): AppCounts {
  const l3 = [0, 0];
  return { names: ["l3"], lists: { l3 }, l3, changed: false };
}

export function addList(numbers: Numbers, name: string, width: number): number[] {
  const list: number[] = [];
  for (let i = 0; i < width; i++) list[i] = 0;
  numbers.names.push(name);
  numbers.lists[name] = list;
  return list;
}

/** Methods that HTTP does not define are counted together, so that they cannot grow anything. */
function methodList(counts: AppCounts, method: string): number[] {
  const name = known[method] === true ? method : "OTHER";
  return counts.lists[name] ?? addList(counts, name, METHOD_WIDTH);
}

export function countDecision(
  counts: AppCounts,
  source: string,
  method: string,
  cost: number,
  code: string,
  allowed: boolean,
): void {
  const { l3 } = counts;
  const place = source === "local" || source === "cached" ? 0 : 1;
  l3[place] = l3[place]! + 1;
  // No code is a method, and `l3` is neither: methods come from clients, so only those in capitals are looked up.
  const list = (known[method] === true ? counts.lists[method] : undefined) ?? methodList(counts, method);
  let status = ALLOWED;
  if (code !== OK) status = allowed ? DRY_RUN : REJECTED;
  list[status] = list[status]! + 1;
  list[COST_SUM] = list[COST_SUM]! + cost;
  let bucket = 0;
  while (bucket < COST_BOUNDS.length && cost > COST_BOUNDS[bucket]!) bucket++;
  list[COST_COUNTS + bucket] = list[COST_COUNTS + bucket]! + 1;
  if (status === REJECTED) {
    const refused = counts.lists[code] ?? addList(counts, code, 1);
    refused[0] = refused[0]! + 1;
  }
}

/** A refusal before it was known who asks. */
export function countUnidentified(counts: AppCounts, code: string): void {
  countDecision(counts, "local", "OTHER", 0, code, false);
}

/** `name=n,n,…` for each list that has more than zeros; those at its end are left out. */
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

export function clearNumbers(numbers: Numbers): void {
  for (const name of numbers.names) {
    const list = numbers.lists[name]!;
    for (let i = 0; i < list.length; i++) list[i] = 0;
  }
}

/** Adds what such a text says. */
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

/** The sum of numbers, one list after the other, that a plane shows of itself. */
export function sumOf(numbers: Numbers, status: "allowed" | "rejected"): number {
  let sum = 0;
  for (const name of numbers.names) {
    if (known[name] === true || name === "OTHER") {
      const list = numbers.lists[name]!;
      if (status === "rejected") sum = sum + (list[REJECTED] ?? 0);
      else sum = sum + (list[ALLOWED] ?? 0) + (list[DRY_RUN] ?? 0);
    }
  }
  return sum;
}
