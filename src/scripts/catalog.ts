/** All scripts: the name, the function that the embedded store runs, and the flags of the Redis function. */
import { borrow } from "./borrow.js";
import { clusterRefill } from "./cluster-refill.js";
import { configRead } from "./config-read.js";
import { configWrite } from "./config-write.js";
import { credit } from "./credit.js";
import { emergencyCheck } from "./emergency-check.js";
import { emergencyCopy } from "./emergency-copy.js";
import { emergencyOff } from "./emergency-off.js";
import { emergencyOn } from "./emergency-on.js";
import { grant } from "./grant.js";
import { heartbeat } from "./heartbeat.js";
import { holdings } from "./holdings.js";
import { inspect } from "./inspect.js";
import { lock } from "./lock.js";
import { nodeLedger } from "./node-ledger.js";
import { nodes } from "./nodes.js";
import { reconcile } from "./reconcile.js";
import type { Script } from "./redis-api.js";
import { repay } from "./repay.js";
import { report } from "./report.js";
import { reportKnown } from "./report-known.js";
import { shardRead } from "./shard-read.js";
import { shardsFix } from "./shards-fix.js";
import { shareSet } from "./share-set.js";
import { slotAcquire } from "./slot-acquire.js";
import { slotCounts } from "./slot-counts.js";
import { slotExtend } from "./slot-extend.js";
import { slotFree } from "./slot-free.js";
import { slotRelease } from "./slot-release.js";
import { slotRenew } from "./slot-renew.js";

export interface CatalogEntry {
  run: Script;
  /**
   * `allow-oom`: the script only frees something, or operators need it in an emergency, so it runs even when Redis is
   * out of memory. No message of a node can create keys with it. `no-writes`: it only reads.
   */
  flags: "" | "allow-oom" | "no-writes";
}

export const catalog = {
  grant: { run: grant, flags: "" },
  report: { run: report, flags: "" },
  "report-known": { run: reportKnown, flags: "allow-oom" },
  heartbeat: { run: heartbeat, flags: "allow-oom" },
  nodes: { run: nodes, flags: "no-writes" },
  "node-ledger": { run: nodeLedger, flags: "no-writes" },
  holdings: { run: holdings, flags: "no-writes" },
  inspect: { run: inspect, flags: "no-writes" },
  borrow: { run: borrow, flags: "" },
  credit: { run: credit, flags: "allow-oom" },
  repay: { run: repay, flags: "allow-oom" },
  "emergency-on": { run: emergencyOn, flags: "allow-oom" },
  "emergency-off": { run: emergencyOff, flags: "allow-oom" },
  "emergency-check": { run: emergencyCheck, flags: "allow-oom" },
  "emergency-copy": { run: emergencyCopy, flags: "allow-oom" },
  "shard-read": { run: shardRead, flags: "allow-oom" },
  "share-set": { run: shareSet, flags: "allow-oom" },
  "shards-fix": { run: shardsFix, flags: "allow-oom" },
  reconcile: { run: reconcile, flags: "allow-oom" },
  "cluster-refill": { run: clusterRefill, flags: "allow-oom" },
  lock: { run: lock, flags: "allow-oom" },
  "config-read": { run: configRead, flags: "no-writes" },
  "config-write": { run: configWrite, flags: "" },
  "slot-acquire": { run: slotAcquire, flags: "" },
  "slot-renew": { run: slotRenew, flags: "" },
  "slot-extend": { run: slotExtend, flags: "allow-oom" },
  "slot-release": { run: slotRelease, flags: "" },
  "slot-free": { run: slotFree, flags: "allow-oom" },
  "slot-counts": { run: slotCounts, flags: "no-writes" },
} satisfies Record<string, CatalogEntry>;

export type ScriptName = keyof typeof catalog;
