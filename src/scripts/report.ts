/**
 * Records the counters of a node without granting: charges what was spent without cover and takes back
 * what the node returns. When Redis is out of memory, `report-known` does.
 *
 * KEYS  1 cluster · 2 nodes · 3 ledger of the node · 4… app
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards · 5 seq · 6 node@epoch
 *       7 leave (0, or 1: the node stops; what it still holds of these apps goes back and its epoch is closed)
 *       per app: id · burst · guaranteed (micro-tokens/s) · priority · fill (µs) · granted · spent · returned
 * Reply code · live nodes · emergency (0 or 1) · emergency left (ms) · known (0 or 1)
 *       and, unless the code is stale_message, per app: granted (cumulative) · remaining
 *
 * A repeated seq gets the same reply; an older one changes nothing.
 */
import { recordReport } from "./common/node-report.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function report(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  return recordReport(redis, keys, argv, "all");
}
