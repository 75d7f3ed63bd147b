/** Shutdown: the last worker of an nginx reports, returns all tokens and removes the node from all shards. */
import { isReturnDue, MAX_APPS_PER_MESSAGE, type PlannedSync, planReturn } from "../../../engine/plan.js";
import { messageText } from "../../lua/sync-text.js";
import { freshNowMs, nowMs } from "../clock.js";
import { releaseLock, takeLock } from "../lock.js";
import { ngx } from "../ngx.js";
import { callService } from "../service-client.js";
import { firstNode, type NginxAccount, type NginxNode, worker } from "../state.js";
import { catchUp } from "./changes.js";
import { addUpCounts, batchReceived, batchText } from "./counters.js";
import { readNode, writeNode } from "./records.js";
import { loadAll } from "./values.js";

type Planned = PlannedSync<NginxAccount>;

/** How often it checks whether a message of another worker has been answered. */
const LOCK_POLL_SECONDS = 0.01;
/** The lock of a dead worker expires half a second after the deadline of its call. */
const LOCK_PATIENCE_MS = 1000;
const ATTEMPTS = 3;

function waitForLock(node: NginxNode): boolean {
  const until = freshNowMs() + worker.options.timeoutMs + LOCK_PATIENCE_MS;
  while (node.syncing || !takeLock(node)) {
    if (nowMs() >= until) return false;
    ngx.sleep(LOCK_POLL_SECONDS);
  }
  return true;
}

/** Counters are cumulative, so a message whose reply was lost may be sent again. */
function send(node: NginxNode, planned: Planned[], leave: boolean, counters: string): boolean {
  const { name, options } = worker;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    node.seq = node.seq + 1;
    const message = messageText({ name, node }, planned, counters, leave);
    if (callService(node, "/v1/sync", message, options.timeoutMs).status === 200) return true;
  }
  return false;
}

function reportCounters(): void {
  addUpCounts();
  for (let batch = batchText(nowMs(), true); batch !== ""; batch = batchText(nowMs(), true)) {
    if (!send(firstNode(), [], false, batch)) return;
    batchReceived(batch);
  }
}

export function leave(): void {
  const threads: unknown[] = [];
  for (const node of worker.nodes) threads.push(ngx.thread.spawn(leaveShard, node));
  for (const thread of threads) ngx.thread.wait(thread);
}

function leaveShard(this: void, node: NginxNode): void {
  if (!waitForLock(node)) return;
  catchUp(node);
  readNode(node);
  loadAll();
  if (node === firstNode()) reportCounters();
  let planned: Planned[] = [];
  let reachable = true;
  for (const account of node.accounts) {
    if (isReturnDue(account)) planned.push(planReturn(node, account));
    if (planned.length >= MAX_APPS_PER_MESSAGE && reachable) {
      reachable = send(node, planned, false, "");
      planned = [];
    }
  }
  // If no service replies, the store recovers the tokens when it finds this node dead. Unused shards do not know it.
  if (reachable && node.seq > 0) send(node, planned, true, "");
  writeNode(node);
  releaseLock(node);
}
