/** The ledger of a node: the counters it has reported, and how a report changes the buckets. */
import { chargeable } from "../../core/bucket.js";
import { storedNumber } from "../../core/platform.js";
import type { RedisApi } from "../redis-api.js";
import { type App, chargeBoth, GRANTED, RETURNED, recordSpent, returnToBoth, SPENT } from "./app.js";
import type { Cluster } from "./cluster.js";

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
  /** The store has lost its data since the epoch began, and with it the earlier counters of this app. */
  lost: boolean;
}

export interface Ledger {
  redis: RedisApi;
  key: string;
  /** False for a new node and for one whose ledger was lost. */
  known: boolean;
  seq: number;
  /** The number of the message that created the ledger: above 1, the store has lost an earlier one. */
  first: number;
  closed: boolean;
  /** Tokens the node holds, over all apps. */
  held: number;
  /** In the order of the requested apps. */
  entries: Entry[];
  /** The names of the fields: OWN_FIELDS of its own, then three for each entry. */
  fields: string[];
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

/** Spending that no bucket pays for, so that it cannot be refunded: see `startLostEntry` and `refundSpent`. */
function finalSpentField(app: string): string {
  return "l:" + app;
}

const OWN_FIELDS = 4;

export function readLedger(redis: RedisApi, key: string, apps: string[]): Ledger {
  const fields: string[] = ["seq", "closed", "held", "first"];
  for (let i = 0; i < apps.length; i++) {
    const app = apps[i]!;
    const at = OWN_FIELDS + i * 3;
    fields[at] = grantedField(app);
    fields[at + 1] = "s:" + app;
    fields[at + 2] = returnedField(app);
  }
  const values = redis.call("HMGET", key, ...fields);
  const known = values[0] !== false;
  const first = storedNumber(values[3]!, 1);
  const entries: Entry[] = [];
  for (let i = 0; i < apps.length; i++) {
    const at = OWN_FIELDS + i * 3;
    entries[i] = {
      app: apps[i]!,
      granted: storedNumber(values[at]!, 0),
      spent: storedNumber(values[at + 1]!, 0),
      returned: storedNumber(values[at + 2]!, 0),
      lost: values[at] === false && (!known || first > 1),
    };
  }
  return {
    redis,
    key,
    known,
    seq: storedNumber(values[0]!, 0),
    first,
    closed: values[1] === "1",
    held: storedNumber(values[2]!, 0),
    entries,
    fields,
  };
}

/** Writes the ledger and the reply for a repeated message. */
export function writeLedger(redis: RedisApi, key: string, ledger: Ledger, answer: string): void {
  const { seq, held, fields } = ledger;
  const closed = ledger.closed ? "1" : "0";
  const values: (string | number)[] = ["seq", seq, "closed", closed, "held", held, "answer", answer];
  if (!ledger.known) {
    values.push("first");
    values.push(seq);
  }
  const own = values.length;
  for (let i = 0; i < ledger.entries.length; i++) {
    const entry = ledger.entries[i]!;
    const at = own + i * 6;
    const field = OWN_FIELDS + i * 3;
    values[at] = fields[field]!;
    values[at + 1] = entry.granted;
    values[at + 2] = fields[field + 1]!;
    values[at + 3] = entry.spent;
    values[at + 4] = fields[field + 2]!;
    values[at + 5] = entry.returned;
  }
  redis.call("HSET", key, ...values);
}

/** Removes the entry of an app; if the node uses the app again, its counters start at zero. */
export function forgetEntry(redis: RedisApi, key: string, app: string): void {
  redis.call("HDEL", key, grantedField(app), "s:" + app, returnedField(app), finalSpentField(app));
}

/** Tokens of this app that the node holds, by the ledger. Never negative after a report was applied. */
export function heldTokens(entry: Entry): number {
  return entry.granted - entry.spent - entry.returned;
}

/**
 * Refunds up to `tokens` of what the node has spent, without the node, which must not claim them back as well. Returns how many.
 */
export function refundSpent({ redis, key }: Ledger, { app, spent }: Entry, tokens: number): number {
  const before = storedNumber(redis.call("HGET", key, finalSpentField(app)), 0);
  const refunded = Math.max(Math.min(tokens, spent - before), 0);
  if (refunded > 0) redis.call("HSET", key, finalSpentField(app), before + refunded);
  return refunded;
}

/**
 * The store has lost the entry. Tokens spent and returned belong to a bucket that is lost as well; tokens that the node still
 * holds, or owes, are charged to the new one. Refunds of that spending are not credited: no bucket has paid for it.
 */
function startLostEntry({ redis, key }: Ledger, entry: Entry, message: number[]): void {
  entry.returned = message[RETURNED]!;
  entry.spent = Math.min(message[GRANTED]! - entry.returned, message[SPENT]!);
  entry.granted = entry.spent + entry.returned;
  if (entry.spent > 0) redis.call("HSET", key, finalSpentField(entry.app), entry.spent);
}

/**
 * Applies a node's counters. Tokens that the node holds or has spent beyond the recorded grants are charged: grants lost
 * in a failover, spend while the store was unavailable, spend reported after the ledger was closed. Spend can decrease
 * by refunds. Counters are cumulative, so applying the same report again changes nothing.
 *
 * No message creates tokens: the buckets have paid for what an entry was granted and has not returned, except for spending
 * that cannot be refunded.
 */
export function applyReport({ ledger, cluster }: NodeState, entry: Entry, message: number[], app: App): void {
  const before = heldTokens(entry);
  let spent = message[SPENT]!;
  if (entry.lost) startLostEntry(ledger, entry, message);
  else if (spent < entry.spent) {
    spent = Math.max(spent, storedNumber(ledger.redis.call("HGET", ledger.key, finalSpentField(entry.app)), 0));
  }
  // Counters only grow, except `spent`.
  const newlyReturned = Math.max(message[RETURNED]! - entry.returned, 0);
  entry.returned = entry.returned + newlyReturned;
  const missing = Math.max(message[GRANTED]!, spent + entry.returned, entry.granted) - entry.granted;
  // Both are netted before a bucket changes, so that a wrong message cannot return more than it was granted.
  const both = Math.min(missing, newlyReturned);
  // What does not fit is charged with a later message, because the counters are cumulative.
  const charged = missing > both ? Math.min(missing - both, chargeable(app), chargeable(cluster)) : 0;
  entry.granted = entry.granted + both + charged;
  const newlySpent = Math.min(spent, entry.granted - entry.returned) - entry.spent;
  entry.spent = entry.spent + newlySpent;
  chargeBoth(app, cluster, charged);
  recordSpent(app, cluster, newlySpent);
  // A closed epoch holds nothing: its node may no longer be listed, so nobody would return its tokens.
  const left = ledger.closed ? heldTokens(entry) : 0;
  entry.returned = entry.returned + left;
  returnToBoth(app, cluster, newlyReturned - both + left);
  ledger.held = ledger.held + (heldTokens(entry) - before);
}
