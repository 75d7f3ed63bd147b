/** The ledger of a node: the counters it has reported, and how a report changes the buckets. */
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
  granted: number;
  spent: number;
  returned: number;
}

export interface Ledger {
  /** False for a new node and for one whose ledger was lost. */
  known: boolean;
  seq: number;
  closed: boolean;
  /** Tokens the node holds, over all apps. */
  held: number;
  /** In the order of the requested apps. */
  entries: Entry[];
  /** The names of the fields: three of its own, then three for each entry. */
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

export function readLedger(redis: RedisApi, key: string, apps: string[]): Ledger {
  const fields: string[] = ["seq", "closed", "held"];
  for (let i = 0; i < apps.length; i++) {
    const app = apps[i]!;
    fields[i * 3 + 3] = grantedField(app);
    fields[i * 3 + 4] = "s:" + app;
    fields[i * 3 + 5] = returnedField(app);
  }
  const values = redis.call("HMGET", key, ...fields);
  const entries: Entry[] = [];
  for (let i = 0; i < apps.length; i++) {
    entries[i] = {
      granted: storedNumber(values[i * 3 + 3]!, 0),
      spent: storedNumber(values[i * 3 + 4]!, 0),
      returned: storedNumber(values[i * 3 + 5]!, 0),
    };
  }
  return {
    known: values[0] !== false,
    seq: storedNumber(values[0]!, 0),
    closed: values[1] === "1",
    held: storedNumber(values[2]!, 0),
    entries,
    fields,
  };
}

/** Writes the ledger and the reply for a repeated message. */
export function writeLedger(redis: RedisApi, key: string, ledger: Ledger, answer: string): void {
  const closed = ledger.closed ? "1" : "0";
  const values: (string | number)[] = ["seq", ledger.seq, "closed", closed, "held", ledger.held, "answer", answer];
  const fields = ledger.fields;
  for (let i = 0; i < ledger.entries.length; i++) {
    const entry = ledger.entries[i]!;
    values[i * 6 + 8] = fields[i * 3 + 3]!;
    values[i * 6 + 9] = entry.granted;
    values[i * 6 + 10] = fields[i * 3 + 4]!;
    values[i * 6 + 11] = entry.spent;
    values[i * 6 + 12] = fields[i * 3 + 5]!;
    values[i * 6 + 13] = entry.returned;
  }
  redis.call("HSET", key, ...values);
}

/** Removes the entry of an app; if the node uses the app again, its counters start at zero. */
export function forgetEntry(redis: RedisApi, key: string, app: string): void {
  redis.call("HDEL", key, grantedField(app), "s:" + app, returnedField(app));
}

/** Tokens of this app that the node holds, by the ledger. Never negative after a report was applied. */
export function heldTokens(entry: Entry): number {
  return entry.granted - entry.spent - entry.returned;
}

/**
 * Applies a node's counters. Tokens that the node holds or has spent beyond the recorded grants are charged: grants lost
 * in a failover, spend while the store was unavailable, spend reported after the ledger was closed. Spend can decrease
 * by refunds. Counters are cumulative, so applying the same report again changes nothing.
 */
export function applyReport({ ledger, cluster }: NodeState, entry: Entry, message: number[], app: App): void {
  const granted = message[GRANTED]!;
  const spent = message[SPENT]!;
  const returned = message[RETURNED]!;
  const before = heldTokens(entry);
  if (!ledger.known) {
    // There is no ledger. Tokens spent and returned belong to a bucket that is lost as well; tokens that the node still
    // holds, or owes, are charged to the new one.
    entry.returned = returned;
    entry.granted = Math.min(granted, spent + returned);
    entry.spent = entry.granted - returned;
  }
  // Counters only grow, except `spent`, which refunds decrease.
  const lost = Math.max(granted - entry.granted, 0);
  const newlyReturned = Math.max(returned - entry.returned, 0);
  const newlySpent = spent - entry.spent;
  entry.granted = entry.granted + lost;
  entry.returned = entry.returned + newlyReturned;
  entry.spent = spent;
  const uncovered = Math.max(0 - heldTokens(entry), 0);
  entry.granted = entry.granted + uncovered;
  // Both are netted before a bucket changes, so that a wrong message cannot return more than it was granted.
  const charged = lost + uncovered;
  const both = Math.min(charged, newlyReturned);
  app.granted = app.granted + both;
  app.returned = app.returned + both;
  chargeBoth(app, cluster, charged - both);
  recordSpent(app, cluster, newlySpent);
  returnToBoth(app, cluster, newlyReturned - both);
  ledger.held = ledger.held + (heldTokens(entry) - before);
}
