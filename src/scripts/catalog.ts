/** All scripts: the name, the function that the embedded store runs, and the flags of the Redis function. */
import { configRead, configWrite } from "./config.js";
import { emergencyCheck, emergencyOff, emergencyOn } from "./emergency.js";
import { grant } from "./grant.js";
import { lock } from "./lock.js";
import { heartbeat, nodeLedger, nodes } from "./nodes.js";
import { reconcile } from "./reconcile.js";
import type { Script } from "./redis-api.js";
import { report } from "./report.js";
import { slotAcquire } from "./slot-acquire.js";
import { slotCounts, slotRelease, slotRenew } from "./slot-leases.js";
import { borrow, inspect, repay } from "./tokens.js";

export interface CatalogEntry {
  run: Script;
  /**
   * `allow-oom`: the script only frees something, or operators need it in an emergency, so it runs even when Redis is
   * out of memory. `no-writes`: it only reads.
   */
  flags: "" | "allow-oom" | "no-writes";
}

export const catalog = {
  grant: { run: grant, flags: "" },
  report: { run: report, flags: "allow-oom" },
  heartbeat: { run: heartbeat, flags: "allow-oom" },
  nodes: { run: nodes, flags: "no-writes" },
  "node-ledger": { run: nodeLedger, flags: "no-writes" },
  inspect: { run: inspect, flags: "no-writes" },
  borrow: { run: borrow, flags: "" },
  repay: { run: repay, flags: "allow-oom" },
  "emergency-on": { run: emergencyOn, flags: "allow-oom" },
  "emergency-off": { run: emergencyOff, flags: "allow-oom" },
  "emergency-check": { run: emergencyCheck, flags: "allow-oom" },
  reconcile: { run: reconcile, flags: "allow-oom" },
  lock: { run: lock, flags: "allow-oom" },
  "config-read": { run: configRead, flags: "no-writes" },
  "config-write": { run: configWrite, flags: "" },
  "slot-acquire": { run: slotAcquire, flags: "" },
  "slot-renew": { run: slotRenew, flags: "allow-oom" },
  "slot-release": { run: slotRelease, flags: "allow-oom" },
  "slot-counts": { run: slotCounts, flags: "no-writes" },
} satisfies Record<string, CatalogEntry>;

export type ScriptName = keyof typeof catalog;
