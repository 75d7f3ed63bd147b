/** A log of changed records: other workers read only those. */
import { splitText } from "../../../core/platform.js";
import { luaString, luaTable } from "../../lua/library.js";
import { type NginxAccount, worker } from "../state.js";
import { readAccount, readNode } from "./records.js";

const CHANGES = "changes";
/** Length of the log. A worker that missed more changes reads everything. */
const LOG_LENGTH = 256;

function logKey(change: number): string {
  return luaString.format("log:%d", change - Math.floor(change / LOG_LENGTH) * LOG_LENGTH);
}

/** The number of the newest change. */
export function newestChange(): number {
  const newest = worker.dict.get(CHANGES);
  return newest === undefined ? 0 : (newest as number);
}

/** Called with the lock, after writing. */
export function announce(changed: readonly NginxAccount[]): void {
  const change = newestChange() + 1;
  const words = [luaString.format("%d", change)];
  for (const account of changed) words.push(account.limits.id);
  worker.dict.safe_set(logKey(change), luaTable.concat(words, " "));
  worker.dict.safe_set(CHANGES, change);
  worker.seen = change;
}

/** Updates this worker's copies. */
export function catchUp(): void {
  const newest = newestChange();
  if (newest === worker.seen) return;
  readNode();
  if (newest < worker.seen || newest - worker.seen >= LOG_LENGTH || !readChanges(newest)) {
    for (const account of worker.accounts) readAccount(account);
  }
  worker.seen = newest;
}

function readChanges(newest: number): boolean {
  for (let change = worker.seen + 1; change <= newest; change++) {
    const logged = worker.dict.get(logKey(change));
    if (logged === undefined) return false;
    const words = splitText(logged as string, " ");
    if (words[0] !== luaString.format("%d", change)) return false;
    for (let i = 1; i < words.length; i++) {
      const account = worker.byId[words[i]!];
      if (account !== undefined) readAccount(account);
    }
  }
  return true;
}
