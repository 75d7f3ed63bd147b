/** Counts all connections, and those on each named pod, without expired leases. Changes nothing. */
import { SLOT_SUCCESS } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import { isWithin, MAX_DURATION_MS } from "./common/cluster.js";
import { readSlotClock } from "./common/slots.js";
import { ALWAYS_OK, invalid, operation, type ReplyOf, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** `rejected`: attempts refused so far. The items are the pods. */
export const SLOT_COUNTS = operation({
  keys: ["clock", "all", "rejected"],
  moreKeys: "pod",
  arguments: [["leaseMs"]],
  reply: [ALWAYS_OK, "total", "rejected"],
  itemReply: ["count"],
});

export function slotCounts(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, moreKeys, values } = readCall(SLOT_COUNTS, keys, argv);
  if (fault !== "") return invalid(fault);
  if (!isWithin(values.leaseMs, 1, MAX_DURATION_MS)) return invalid("lease_ms");
  const clock = readSlotClock(redis, key.clock, values.leaseMs);
  const alive = clock.lease + 1;
  const rejected = storedNumber(redis.call("GET", key.rejected), 0);
  const total = redis.call("ZCOUNT", key.all, alive, "+inf");
  const reply: ScriptReply = [SLOT_SUCCESS, total, rejected] satisfies ReplyOf<typeof SLOT_COUNTS>;
  for (const pod of moreKeys) reply.push(redis.call("ZCOUNT", pod, alive, "+inf"));
  return reply;
}
