/** The ledger of a node: the counters it has reported, read and written as one hash. */
import { joinValues, splitText, storedNumber } from "../../core/platform.js";
import type { RedisApi } from "../redis-api.js";
import { type Cluster, MAX_COUNTER } from "./cluster.js";

/** A closed ledger is kept this long, so that spend reported late by its node is still charged. */
export const LEDGER_RETENTION_MS = 3600000;
/** Maximum number of apps per call: unpack() and the argument list are limited. */
export const MAX_APPS = 500;

/** One app in the ledger of a node, cumulative since the node's epoch began. */
export interface Entry {
  app: string;
  granted: number;
  spent: number;
  returned: number;
  /** Of the tokens that the node holds: those that L1 has not paid. Always 0 for a limit. */
  unpaidHeld: number;
  /** Of the tokens that the node has spent and that can be refunded: those that L1 has not paid. */
  unpaidSpent: number;
  /** Whether one of these two has changed. */
  unpaidChanged: boolean;
  /** The ledger contains the app. */
  known: boolean;
  /** Not to be written. */
  skipped?: true;
}

export interface Ledger {
  redis: RedisApi;
  key: string;
  /** False for a new node and for one whose ledger was lost. */
  known: boolean;
  seq: number;
  /** The number of the message that created the ledger: above 1, the store has lost an earlier one. */
  first: number;
  /** When a message last came that skipped numbers, in microseconds on the store's clock: the node had got no replies. */
  missedAt: number;
  missedNow: boolean;
  closed: boolean;
  /** Tokens the node holds, over all apps. */
  held: number;
  /** In the order of the requested apps. */
  entries: Entry[];
  /** The names of the fields, OWN_FIELDS of its own, then ENTRY_FIELDS for each entry, and what was read. */
  fields: string[];
  stored: (string | false)[];
}

/** What a message of a node reads and changes besides the apps. */
export interface NodeState {
  cluster: Cluster;
  ledger: Ledger;
}

export function grantedField(app: string): string {
  return "g:" + app;
}
export function returnedField(app: string): string {
  return "r:" + app;
}

/** Both unpaid amounts, separated by a space; missing while L1 has paid everything. */
function unpaidField(app: string): string {
  return "u:" + app;
}

/** Writes the unpaid amounts if they have changed. */
export function writeUnpaid({ redis, key }: Ledger, entry: Entry): void {
  const { app, unpaidHeld, unpaidSpent } = entry;
  if (!entry.unpaidChanged) return;
  const amounts = joinValues([unpaidHeld, unpaidSpent], " ", MAX_COUNTER);
  redis.call("HSET", key, "unpaid", "1", unpaidField(app), amounts);
}

/** Spending that no bucket pays for, so that it cannot be refunded: lost with its bucket. Services of 0.2 also refund without the node. */
export function finalSpentField(app: string): string {
  return "l:" + app;
}

export function finalSpent({ redis, key }: Ledger, app: string): number {
  return storedNumber(redis.call("HGET", key, finalSpentField(app)), 0);
}

/** Spending that spare refill has paid for instead of the bucket. */
function spareSpentField(app: string): string {
  return "p:" + app;
}

export function spareSpent({ redis, key }: Ledger, app: string): number {
  return storedNumber(redis.call("HGET", key, spareSpentField(app)), 0);
}

export function setSpareSpent({ redis, key }: Ledger, app: string, tokens: number): void {
  redis.call("HSET", key, spareSpentField(app), tokens);
}

const OWN_FIELDS = 6;
const ENTRY_FIELDS = 3;

export function readLedger(redis: RedisApi, key: string, apps: string[]): Ledger {
  const fields: string[] = ["seq", "closed", "held", "first", "missed", "unpaid"];
  for (let i = 0; i < apps.length; i++) {
    const app = apps[i]!;
    const at = OWN_FIELDS + i * ENTRY_FIELDS;
    fields[at] = grantedField(app);
    fields[at + 1] = "s:" + app;
    fields[at + 2] = returnedField(app);
  }
  const values = redis.call("HMGET", key, ...fields);
  const known = values[0] !== false;
  const first = storedNumber(values[3]!, 1);
  const entries: Entry[] = [];
  for (let i = 0; i < apps.length; i++) {
    const at = OWN_FIELDS + i * ENTRY_FIELDS;
    // As a table of up to 8 fields: half of a larger one.
    const entry: Entry = {
      app: apps[i]!,
      granted: storedNumber(values[at]!, 0),
      spent: storedNumber(values[at + 1]!, 0),
      returned: storedNumber(values[at + 2]!, 0),
      unpaidHeld: 0,
      unpaidSpent: 0,
      unpaidChanged: false,
      known: values[at] !== false,
    };
    entries[i] = entry;
  }
  // Written with the first unpaid amount of the node.
  if (values[5] !== false) readUnpaid(redis, key, entries);
  return {
    redis,
    key,
    known,
    seq: storedNumber(values[0]!, 0),
    first,
    missedAt: storedNumber(values[4]!, 0),
    missedNow: false,
    closed: values[1] === "1",
    held: storedNumber(values[2]!, 0),
    entries,
    fields,
    stored: values,
  };
}

/** Whether the store has lost its data since the epoch began, and with it the earlier counters of the app. */
export function isLost({ known, first }: Ledger, entry: Entry): boolean {
  return !entry.known && (!known || first > 1);
}

function readUnpaid(redis: RedisApi, key: string, entries: Entry[]): void {
  if (entries.length === 0) return;
  const fields: string[] = [];
  for (const { app } of entries) fields.push(unpaidField(app));
  const texts = redis.call("HMGET", key, ...fields);
  for (let i = 0; i < entries.length; i++) {
    const text = texts[i]!;
    const parts = text === false ? [] : splitText(text, " ");
    if (parts.length !== 2) continue;
    entries[i]!.unpaidHeld = storedNumber(parts[0]!, 0);
    entries[i]!.unpaidSpent = storedNumber(parts[1]!, 0);
  }
}

/** Before a new message is applied. If it skips numbers, the node got no replies to earlier ones. */
export function noteMissed(ledger: Ledger, seq: number, now: number): void {
  if (!ledger.known) ledger.first = seq;
  if (seq <= ledger.seq + 1) return;
  ledger.missedAt = now;
  ledger.missedNow = true;
}

/** Writes the ledger, as far as it has changed, and the reply for a repeated message. */
export function writeLedger(redis: RedisApi, key: string, ledger: Ledger, answer: string): void {
  const { seq, held, fields, stored } = ledger;
  const values: (string | number)[] = ["seq", seq, "held", held, "answer", answer];
  const closed = ledger.closed ? "1" : "0";
  if (stored[1] !== closed) for (const value of ["closed", closed]) values.push(value);
  if (!ledger.known) for (const value of ["first", ledger.first]) values.push(value);
  if (ledger.missedNow) for (const value of ["missed", ledger.missedAt]) values.push(value);
  for (let i = 0; i < ledger.entries.length; i++) {
    const entry = ledger.entries[i]!;
    if (entry.skipped === true) continue;
    const field = OWN_FIELDS + i * ENTRY_FIELDS;
    const at = values.length;
    values[at] = fields[field]!;
    values[at + 1] = entry.granted;
    values[at + 2] = fields[field + 1]!;
    values[at + 3] = entry.spent;
    // Nodes return seldom.
    if (storedNumber(stored[field + 2]!, -1) !== entry.returned) {
      values[at + 4] = fields[field + 2]!;
      values[at + 5] = entry.returned;
    }
    if (entry.unpaidChanged) writeUnpaid(ledger, entry);
  }
  redis.call("HSET", key, ...values);
}

/** Removes the entry of an app; if the node uses the app again, its counters start at zero. */
export function forgetEntry(redis: RedisApi, key: string, app: string): void {
  const others = [unpaidField(app), finalSpentField(app), spareSpentField(app)];
  redis.call("HDEL", key, grantedField(app), "s:" + app, returnedField(app), ...others);
}

/** Tokens of this app that the node holds, by the ledger. Never negative after a report was applied. */
export function heldTokens(entry: Entry): number {
  return entry.granted - entry.spent - entry.returned;
}

/** Tokens that the node holds and L1 has paid. */
export function paidAndHeld(entry: Entry): number {
  return heldTokens(entry) - entry.unpaidHeld;
}

/** Changes the unpaid amounts. */
export function addUnpaid(entry: Entry, held: number, spent: number): void {
  if (held === 0 && spent === 0) return;
  entry.unpaidHeld = entry.unpaidHeld + held;
  entry.unpaidSpent = entry.unpaidSpent + spent;
  entry.unpaidChanged = true;
}
