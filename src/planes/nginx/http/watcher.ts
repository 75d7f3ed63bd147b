/** One waiting request, the watcher, looks for replies to other workers; all waiters of this worker are served from them. */
import { serveFromLease } from "../../../engine/waiters.js";
import { nowMs } from "../clock.js";
import { type NginxNode, worker } from "../state.js";
import { catchUp, newestChange } from "./changes.js";
import { giveUpWaiting, wakeDecided, wakeWaiting } from "./syncer.js";

/** The watcher looks this often. */
export const WATCH_SECONDS = 0.002;
/** The other waiters replace a watcher that has not looked for this long. */
export const WATCHER_TIMEOUT_MS = 100;

export function watchReplies(): void {
  worker.watchedAt = nowMs();
  for (const node of worker.nodes) if (node.active.length > 0) watch(node);
  wakeWaiting();
}

/** Looks whether another worker received a reply, or failed to, and decides the waiters of this worker accordingly. */
function watch(node: NginxNode): void {
  if (newestChange(node) === node.seen) return;
  catchUp(node);
  if (node.failures !== node.failuresSeen) {
    node.failuresSeen = node.failures;
    giveUpWaiting(node);
  } else {
    const now = nowMs();
    for (const account of node.active) serveFromLease(node, account, now);
  }
  wakeDecided(node);
}

export function replaceWatcher(): void {
  worker.watcher = undefined;
  for (const node of worker.nodes) {
    for (const account of node.active) {
      const next = account.waiters[0];
      if (next !== undefined) {
        worker.watcher = next.signal;
        next.signal.post(1);
        return;
      }
    }
  }
}
