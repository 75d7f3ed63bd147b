/** A log of changed records per shard: other workers read only those. */
import { splitText } from "../../../core/platform.js";
import { luaString, luaTable } from "../library.js";
import { readAccount, readNode } from "./records.js";
import { type PlaneAccount, type PlaneNode, worker } from "./state.js";

function changesKey({ suffix }: PlaneNode): string {
  return `changes${suffix}`;
}

/** Length of the log. A worker that missed more changes reads everything. */
const LOG_LENGTH = 256;

function logKey({ suffix }: PlaneNode, change: number): string {
  return luaString.format("log:%d%s", change - Math.floor(change / LOG_LENGTH) * LOG_LENGTH, suffix);
}

/** The number of the newest change. */
export function newestChange(node: PlaneNode): number {
  const newest = worker.dict.get(changesKey(node));
  return newest === undefined ? 0 : (newest as number);
}

/** Called with the lock, after writing. */
export function announce(node: PlaneNode, changed: readonly PlaneAccount[]): void {
  const change = newestChange(node) + 1;
  const words = [luaString.format("%d", change)];
  for (const account of changed) words.push(account.limits.id);
  worker.dict.safe_set(logKey(node, change), luaTable.concat(words, " "));
  worker.dict.safe_set(changesKey(node), change);
  node.seen = change;
}

/** Updates this worker's copies. */
export function catchUp(node: PlaneNode): void {
  const newest = newestChange(node);
  if (newest === node.seen) return;
  readNode(node);
  if (newest < node.seen || newest - node.seen >= LOG_LENGTH || !readChanges(node, newest)) {
    for (const account of node.accounts) readAccount(account);
  }
  node.seen = newest;
}

function readChanges(node: PlaneNode, newest: number): boolean {
  for (let change = node.seen + 1; change <= newest; change++) {
    const logged = worker.dict.get(logKey(node, change));
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
