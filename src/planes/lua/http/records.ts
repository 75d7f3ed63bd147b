/** Accounts and the node as text in shared memory: written by the worker that holds the lock, read by all workers. */
import { QUOTA_EXHAUSTED } from "../../../core/codes.js";
import type { LeaseMessage } from "../../../core/lease.js";
import { splitText, storedNumber } from "../../../core/platform.js";
import { newAccount } from "../../../engine/account.js";
import { recordRemaining } from "../../../engine/remaining.js";
import { running } from "../host.js";
import { luaString, luaTable } from "../library.js";
import { pourIn, type ValueCell } from "./shared-cell.js";
import { type PlaneAccount, type PlaneNode, worker } from "./state.js";

// The order of the fields must not change: after a reload, records of an older version are read.
const LEASE = [
  "granted",
  "returned",
  "target",
  "spendRate",
  "spentAtReport",
  "reportedAt",
  "activeAt",
  "refusedAt",
  "refusedCost",
];
const REPORTED = ["reportedSpent", "reportedReturned"];
const REPLIED = ["remaining", "limit", "repliedAt", "shortAt"];
const LEVEL_OF_BUCKET = ["rate", "refillsFrom", "elsewhere"];
const NODE = ["epoch", "seq", "failuresInARow", "failures", "syncs", "retryAt", "lastContact", "liveNodes"];
const LEVEL = ["level", "calmSince", "pinnedLevel", "pinnedUntil"];
const SLOT = ["index", "calls", "errors", "timeouts", "latencyMs"];

/** Adds number fields with all digits, so that reading returns the same numbers. */
function addFields(parts: string[], record: object, names: string[]): void {
  const values = record as { [name: string]: number };
  for (const name of names) parts.push(luaString.format("%.17g", values[name]!));
}

/** Reads number fields from position `from` on, and returns the next position. */
function readFields(parts: string[], from: number, record: object, names: string[]): number {
  const values = record as { [name: string]: number };
  let at = from;
  for (const name of names) {
    values[name] = storedNumber(parts[at]!, values[name]!);
    at = at + 1;
  }
  return at;
}

function flag(value: boolean): string {
  return value ? "1" : "0";
}

/** Logs an error if the dictionary is full: the limits would be wrong after a reload. */
function write(key: string, text: string): void {
  const [stored, problem] = worker.dict.safe_set(key, text);
  if (stored !== true) running.host.logError(`tollgate: shared memory is too small for ${key}: ${problem ?? ""}`);
}

/** Writes the record, then adds the tokens that were granted with it: see PouringCell. */
export function saveAccount(account: PlaneAccount): void {
  const { lease, sync } = account;
  const parts: string[] = [];
  addFields(parts, lease, LEASE);
  parts.push(lease.refusedCode);
  addFields(parts, sync, REPORTED);
  parts.push(flag(sync.firstOnly));
  addFields(parts, sync, REPLIED);
  parts.push(flag(sync.unanswered));
  parts.push(sync.shortCode);
  parts.push(flag(sync.plentiful));
  parts.push(flag(account.finalReport !== undefined));
  addFields(parts, sync, LEVEL_OF_BUCKET);
  const text = luaTable.concat(parts, " ");
  if (text !== account.record) {
    account.record = text;
    write(account.recordKey, text);
  }
  // A separate entry, because a refund ends a refusal without the lock.
  if (lease.refusedUntil === 0) worker.dict.delete(account.refusedUntilKey);
  else worker.dict.safe_set(account.refusedUntilKey, lease.refusedUntil);
  if (account.isValue) ensureEntry(account);
  pourIn(account.syncCell);
}

/** The entry of a value may have been deleted by another worker since. */
function ensureEntry({ cell, syncCell }: PlaneAccount): void {
  if (syncCell.held > 0) (cell as ValueCell).create(cell.key);
}

/** Skips a record whose text has not changed. */
export function readAccount(account: PlaneAccount): void {
  const { lease, sync } = account;
  const text = worker.dict.get(account.recordKey);
  readRefusedUntil(account);
  if (text === undefined) {
    if (account.isValue && account.record !== "") forgetAccount(account);
    return;
  }
  if (text === account.record) return;
  // Another worker uses the value.
  account.leaving = account.leaving && !account.isValue;
  account.record = text as string;
  account.cell.seen = 0;
  const parts = splitText(text as string, " ");
  let at = readFields(parts, 0, lease, LEASE);
  lease.refusedCode = parts[at]!;
  at = readFields(parts, at + 1, sync, REPORTED);
  sync.firstOnly = parts[at] === "1";
  at = readFields(parts, at + 1, sync, REPLIED);
  // Older records may end here.
  sync.unanswered = parts[at] === "1";
  sync.shortCode = parts[at + 1] ?? QUOTA_EXHAUSTED;
  sync.plentiful = parts[at + 2] !== "0";
  account.finalReport = parts[at + 3] === "1" ? finalReportOf(account) : undefined;
  if (parts[at + 4] === undefined)
    recordRemaining(account, { remaining: sync.remaining, limit: sync.limit, balance: 0 }, 0);
  else readFields(parts, at + 4, sync, LEVEL_OF_BUCKET);
}

/** The same message again: it is repeated until a reply arrives. */
function finalReportOf({ lease: { granted, returned } }: PlaneAccount): LeaseMessage {
  return { granted, spent: granted - returned, returned, need: 0, want: 0 };
}

/** Another worker has released the value: this one forgets it, unless requests wait for it. */
function forgetAccount(account: PlaneAccount): void {
  const { lease, sync } = newAccount(account.limits, account.node, 0);
  account.lease = lease;
  account.sync = sync;
  account.lease.activeAt = 0;
  account.record = "";
  account.cell.seen = 0;
  account.finalReport = undefined;
  account.leaving = account.waiters.length === 0;
}

export function readRefusedUntil(account: PlaneAccount): void {
  const until = worker.dict.get(account.refusedUntilKey);
  account.lease.refusedUntil = until === undefined ? 0 : (until as number);
}

const NODE_KEY = "node";
const DEGRADATION_KEY = "degradation";

export function writeNode(node: PlaneNode): void {
  const parts: string[] = [];
  addFields(parts, node, NODE);
  parts.push(flag(node.emergency));
  addFields(parts, node, ["service"]);
  parts.push(node.configVersion);
  node.text = luaTable.concat(parts, " ");
  write(NODE_KEY + node.suffix, node.text);
  const levels: string[] = [];
  addFields(levels, node.degradation, LEVEL);
  for (const slot of node.degradation.slots) addFields(levels, slot, SLOT);
  node.degradationText = luaTable.concat(levels, " ");
  write(DEGRADATION_KEY + node.suffix, node.degradationText);
}

/** False if nothing was ever written. */
export function readNode(node: PlaneNode): boolean {
  const { dict } = worker;
  const text = dict.get(NODE_KEY + node.suffix);
  if (text === undefined) return false;
  if (text !== node.text) {
    node.text = text as string;
    const parts = splitText(text as string, " ");
    let at = readFields(parts, 0, node, NODE);
    node.emergency = parts[at] === "1";
    at = readFields(parts, at + 1, node, ["service"]);
    node.configVersion = parts[at]!;
  }
  const levels = dict.get(DEGRADATION_KEY + node.suffix);
  if (levels !== undefined && levels !== node.degradationText) {
    node.degradationText = levels as string;
    const parts = splitText(levels as string, " ");
    let at = readFields(parts, 0, node.degradation, LEVEL);
    for (const slot of node.degradation.slots) at = readFields(parts, at, slot, SLOT);
  }
  return true;
}
