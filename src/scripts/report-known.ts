/**
 * Records the counters of a node when Redis is out of memory: like `report`, but only of a node that has a ledger and of apps in
 * it, and it creates nothing. Others are not charged, unless the node reports them again when there is memory.
 *
 * KEYS  as of `report`
 * ARGV  as of `report`
 * Reply as of `report`; granted (cumulative) 0 if the ledger does not contain the app
 */
import { recordReport } from "./common/node-report.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function reportKnown(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  return recordReport(redis, keys, argv, "known");
}
