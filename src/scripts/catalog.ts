/** All operations: what they take and reply, the script that the embedded store runs, and the flags of the Redis function. */
import { BORROW, borrow } from "./borrow.js";
import { CLUSTER_REFILL, clusterRefill } from "./cluster-refill.js";
import { CONFIG_READ, CONFIG_WRITE, configRead, configWrite } from "./config-layer.js";
import { CREDIT, credit } from "./credit.js";
import { EMERGENCY_CHECK, emergencyCheck } from "./emergency-check.js";
import { EMERGENCY_COPY, emergencyCopy } from "./emergency-copy.js";
import { EMERGENCY_OFF, emergencyOff } from "./emergency-off.js";
import { EMERGENCY_ON, emergencyOn } from "./emergency-on.js";
import { GRANT, grant } from "./grant.js";
import { HEARTBEAT, heartbeat } from "./heartbeat.js";
import { INSPECT, inspect } from "./inspect.js";
import { LOCK, lock } from "./lock.js";
import { HOLDINGS, holdings, NODE_LEDGER, NODES, nodeLedger, nodes } from "./nodes.js";
import type { Operation } from "./operation.js";
import { RECONCILE, reconcile } from "./reconcile.js";
import type { Script } from "./redis-api.js";
import { REPAY, repay } from "./repay.js";
import { REPORT, report, reportKnown } from "./report.js";
import { SHARD_READ, shardRead } from "./shard-read.js";
import { SHARDS_FIX, shardsFix } from "./shards-fix.js";
import { SHARE_SET, shareSet } from "./share-set.js";
import { SLOT_ACQUIRE, slotAcquire } from "./slot-acquire.js";
import { SLOT_COUNTS, slotCounts } from "./slot-counts.js";
import { SLOT_RELEASE, slotFree, slotRelease } from "./slot-release.js";
import { SLOT_RENEW, slotExtend, slotRenew } from "./slot-renew.js";

export interface CatalogEntry {
  operation: Operation;
  run: Script;
  /**
   * `allow-oom`: the script only frees something, or operators need it in an emergency, so it runs even when Redis is
   * out of memory. No message of a node can create keys with it. `no-writes`: it only reads.
   */
  flags: "" | "allow-oom" | "no-writes";
}

export const catalog = {
  grant: { operation: GRANT, run: grant, flags: "" },
  report: { operation: REPORT, run: report, flags: "" },
  "report-known": { operation: REPORT, run: reportKnown, flags: "allow-oom" },
  heartbeat: { operation: HEARTBEAT, run: heartbeat, flags: "allow-oom" },
  nodes: { operation: NODES, run: nodes, flags: "no-writes" },
  "node-ledger": { operation: NODE_LEDGER, run: nodeLedger, flags: "no-writes" },
  holdings: { operation: HOLDINGS, run: holdings, flags: "no-writes" },
  inspect: { operation: INSPECT, run: inspect, flags: "no-writes" },
  borrow: { operation: BORROW, run: borrow, flags: "" },
  credit: { operation: CREDIT, run: credit, flags: "allow-oom" },
  repay: { operation: REPAY, run: repay, flags: "allow-oom" },
  "emergency-on": { operation: EMERGENCY_ON, run: emergencyOn, flags: "allow-oom" },
  "emergency-off": { operation: EMERGENCY_OFF, run: emergencyOff, flags: "allow-oom" },
  "emergency-check": { operation: EMERGENCY_CHECK, run: emergencyCheck, flags: "allow-oom" },
  "emergency-copy": { operation: EMERGENCY_COPY, run: emergencyCopy, flags: "allow-oom" },
  "shard-read": { operation: SHARD_READ, run: shardRead, flags: "allow-oom" },
  "share-set": { operation: SHARE_SET, run: shareSet, flags: "allow-oom" },
  "shards-fix": { operation: SHARDS_FIX, run: shardsFix, flags: "allow-oom" },
  reconcile: { operation: RECONCILE, run: reconcile, flags: "allow-oom" },
  "cluster-refill": { operation: CLUSTER_REFILL, run: clusterRefill, flags: "allow-oom" },
  lock: { operation: LOCK, run: lock, flags: "allow-oom" },
  "config-read": { operation: CONFIG_READ, run: configRead, flags: "no-writes" },
  "config-write": { operation: CONFIG_WRITE, run: configWrite, flags: "" },
  "slot-acquire": { operation: SLOT_ACQUIRE, run: slotAcquire, flags: "" },
  "slot-renew": { operation: SLOT_RENEW, run: slotRenew, flags: "" },
  "slot-extend": { operation: SLOT_RENEW, run: slotExtend, flags: "allow-oom" },
  "slot-release": { operation: SLOT_RELEASE, run: slotRelease, flags: "" },
  "slot-free": { operation: SLOT_RELEASE, run: slotFree, flags: "allow-oom" },
  "slot-counts": { operation: SLOT_COUNTS, run: slotCounts, flags: "no-writes" },
} satisfies Record<string, CatalogEntry>;

export type ScriptName = keyof typeof catalog;
