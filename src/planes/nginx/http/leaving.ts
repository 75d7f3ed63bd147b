/** The end of a node: when nginx ends, its last worker reports, gives all tokens back and takes the node off the list. */
import { MAX_APPS_PER_MESSAGE, planLastMessage } from "../../../core/sync.js";
import { messageText } from "../../lua/sync-text.js";
import { freshNowMs, nowMs } from "../clock.js";
import { releaseLock, takeLock } from "../lock.js";
import { ngx } from "../ngx.js";
import { callService } from "../service-client.js";
import { worker } from "../state.js";
import { catchUp } from "./changes.js";
import { addUpCounts, batchHeard, batchText } from "./counters.js";
import { readNode, writeNode } from "./records.js";
import { pouringCell } from "./shared-cell.js";
import type { Planned } from "./syncer.js";

/** How often the last worker looks whether a message that is under way has been answered. */
const LOCK_LOOK_SECONDS = 0.01;
/** A lock that a dead worker left behind runs out within half a second beyond the deadline of a call. */
const LOCK_PATIENCE_MS = 1000;
const LEAVING_ATTEMPTS = 3;

function waitForLock(): boolean {
  const until = freshNowMs() + worker.settings.timeoutMs + LOCK_PATIENCE_MS;
  while (worker.syncing || !takeLock()) {
    if (nowMs() >= until) return false;
    ngx.sleep(LOCK_LOOK_SECONDS);
  }
  return true;
}

/** Counters are cumulative, so a message that was heard although nobody answered may be sent again. */
function sendLast(planned: Planned[], leaves: boolean, numbers: string): boolean {
  const { node, name, settings } = worker;
  for (let attempt = 0; attempt < LEAVING_ATTEMPTS; attempt++) {
    node.seq = node.seq + 1;
    const message = messageText(name, node.epoch, node.seq, leaves, planned, numbers);
    const reply = callService("/v1/sync", message, settings.timeoutMs);
    if (reply.status === 200) return true;
  }
  return false;
}

/** What was counted and is not told yet. */
function tellNumbers(): void {
  addUpCounts();
  for (let batch = batchText(nowMs(), true); batch !== ""; batch = batchText(nowMs(), true)) {
    if (!sendLast([], false, batch)) return;
    batchHeard(batch);
  }
}

/** Reports, gives all tokens back and leaves, when nginx ends. */
export function leave(): void {
  if (!waitForLock()) return;
  catchUp();
  readNode();
  tellNumbers();
  const everything: Planned[] = [];
  for (const app of worker.everyone) {
    if (app.lease.granted > 0 || app.cell.get() !== 0 || app.sync.unanswered) {
      const cell = pouringCell(app.cell);
      everything.push({ id: app.limits.id, app, cell, planned: planLastMessage(app.lease, cell) });
    }
  }
  let from = 0;
  let last = false;
  while (!last) {
    const some: Planned[] = [];
    for (let i = from; i < everything.length && some.length < MAX_APPS_PER_MESSAGE; i++) some.push(everything[i]!);
    from = from + some.length;
    last = from >= everything.length;
    // The service is gone: what this node held comes back when it is found dead.
    if (!sendLast(some, last, "")) last = true;
  }
  writeNode();
  releaseLock();
}
