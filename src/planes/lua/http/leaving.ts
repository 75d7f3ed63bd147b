/** Shutdown: the last worker of a proxy reports, returns all tokens and removes the node from all shards. */
import { isReturnDue, MAX_APPS_PER_MESSAGE, type PlannedSync, planReturn } from "../../../engine/plan.js";
import { nowMs, running } from "../host.js";
import { messageText } from "../sync-text.js";
import { catchUp } from "./changes.js";
import { addUpCounts, batchReceived, batchText } from "./counters.js";
import { readNode, writeNode } from "./records.js";
import { firstNode, type PlaneAccount, type PlaneNode, worker } from "./state.js";
import { loadAll } from "./values.js";

type Planned = PlannedSync<PlaneAccount>;

/** How often it checks whether a message of another worker has been answered. */
const LOCK_POLL_SECONDS = 0.01;
/** The lock of a dead worker expires half a second after the deadline of its call. */
const LOCK_PATIENCE_MS = 1000;
const ATTEMPTS = 3;

function waitForLock(node: PlaneNode): boolean {
  const until = running.sync.freshNowMs() + worker.options.timeoutMs + LOCK_PATIENCE_MS;
  while (node.syncing || !running.sync.takeLock(node)) {
    if (nowMs() >= until) return false;
    running.sync.sleep(LOCK_POLL_SECONDS);
  }
  return true;
}

/** Counters are cumulative, so a message whose reply was lost may be sent again. */
function send(node: PlaneNode, planned: Planned[], leave: boolean, counters: string): boolean {
  const { name, options } = worker;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    node.seq = node.seq + 1;
    const message = messageText({ name, node }, planned, counters, leave);
    if (running.sync.callService(node, "/v1/sync", message, options.timeoutMs).status === 200) return true;
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
  running.sync.runAll(leaveShard, worker.nodes);
}

function leaveShard(this: void, node: PlaneNode): void {
  if (!waitForLock(node)) return;
  // No further message is sent.
  node.syncing = true;
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
  running.sync.releaseLock(node);
}
