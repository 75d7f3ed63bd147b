/** The ledger of a node: what the store knows of its counters, and how a message of the node is booked. */
import { storedNumber } from "../../core/platform.js";
import type { RedisApi } from "../redis-api.js";
import { type App, chargeBoth, configuredCapacity, returnToBoth } from "./app.js";
import type { Cluster } from "./cluster.js";
import { GRANTED, RETURNED, SPENT } from "./request.js";

/** A closed ledger is kept this long, so that spend reported late by its node is still charged. */
export const LEDGER_RETENTION_MS = 3600000;
/** As many apps fit into one call; unpack() and the argument list have their limits. */
export const MAX_APPS = 500;

/** One app in the ledger of a node, cumulative since the node's epoch began. */
export interface Entry {
  granted: number;
  spent: number;
  returned: number;
}

export interface Ledger {
  /** The ledger is in the store. A new node has none yet, and neither has one whose ledger was lost. */
  known: boolean;
  seq: number;
  closed: boolean;
  /** Tokens the node holds, over all apps. */
  held: number;
  /** In the order of the apps asked for. */
  entries: Entry[];
  /** The names of the fields: three of its own, then three for each entry. */
  fields: string[];
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

/** Writes the ledger and the answer that a repetition of this message gets. */
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

/** The node begins this app anew, should it come back to it. */
export function forgetEntry(redis: RedisApi, key: string, app: string): void {
  redis.call("HDEL", key, grantedField(app), "s:" + app, returnedField(app));
}

/** Tokens the node holds of this app, as far as the store knows. Never negative once a message is booked. */
export function heldTokens(entry: Entry): number {
  return entry.granted - entry.spent - entry.returned;
}

/**
 * Books a node's counters. Whatever the node has or has spent beyond what is on record is charged: grants that a
 * failover forgot, spend made while the store was gone, spend reported after the ledger was closed. Spend may go down,
 * by refunds. Counters are cumulative, so booking the same message again changes nothing.
 */
export function bookMessage(ledger: Ledger, entry: Entry, message: number[], app: App, cluster: Cluster): void {
  const granted = message[GRANTED]!;
  const spent = message[SPENT]!;
  const returned = message[RETURNED]!;
  const before = heldTokens(entry);
  if (!ledger.known) {
    // The whole ledger is gone, or never was. What was spent and returned belongs to the past of the bucket that is
    // gone, too; what the node still holds, or owes, does not.
    entry.returned = returned;
    entry.granted = Math.min(granted, spent + returned);
    entry.spent = entry.granted - returned;
  }
  const forgotten = granted - entry.granted;
  if (forgotten > 0) {
    chargeBoth(app, cluster, forgotten, configuredCapacity(message));
    entry.granted = granted;
  }
  const given = returned - entry.returned;
  if (given > 0) {
    returnToBoth(app, cluster, given);
    entry.returned = returned;
  }
  app.spent = app.spent + (spent - entry.spent);
  entry.spent = spent;
  const uncovered = 0 - heldTokens(entry);
  if (uncovered > 0) {
    chargeBoth(app, cluster, uncovered, configuredCapacity(message));
    entry.granted = entry.granted + uncovered;
  }
  ledger.held = ledger.held + (heldTokens(entry) - before);
}
