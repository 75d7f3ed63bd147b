/** Which records changed: whoever wrote some says so, and the other workers read those alone. */
import { splitText } from "../../../core/platform.js";
import { luaString, luaTable } from "../../lua/library.js";
import { type NginxAccount, worker } from "../state.js";
import { readApp, readNode } from "./records.js";

const CHANGES = "changes";
/** So many changes are remembered; a worker that missed more reads everything. */
const REMEMBERED = 256;

function logKey(change: number): string {
  return luaString.format("log:%d", change - Math.floor(change / REMEMBERED) * REMEMBERED);
}

/** The number of the newest change. */
export function newestChange(): number {
  const newest = worker.dict.get(CHANGES);
  return newest === undefined ? 0 : (newest as number);
}

/** Called by who holds the lock, after writing. */
export function announce(changed: NginxAccount[]): void {
  const change = newestChange() + 1;
  const words = [luaString.format("%d", change)];
  for (const app of changed) words.push(app.limits.id);
  worker.dict.safe_set(logKey(change), luaTable.concat(words, " "));
  worker.dict.safe_set(CHANGES, change);
  worker.seen = change;
}

/** Brings this worker's copies up to date. */
export function catchUp(): void {
  const newest = newestChange();
  if (newest === worker.seen) return;
  readNode();
  if (newest < worker.seen || newest - worker.seen >= REMEMBERED || !readChanges(newest)) {
    for (const app of worker.everyone) readApp(app);
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
      const app = worker.byId[words[i]!];
      if (app !== undefined) readApp(app);
    }
  }
  return true;
}
