/** Recalls: when tokens are short, all nodes are asked over a channel to return what they do not need at once. */
import { recallChannel } from "../../core/keys.js";
import { joinValues, splitText, storedNumber } from "../../core/platform.js";
import type { RedisApi } from "../redis-api.js";
import { MAX_COUNTER } from "./cluster.js";

/** Time between two recalls: at least this, and longer while they bring nothing back. In microseconds. */
const SHORTEST_GAP = 20000;
const LONGEST_GAP = 500000;
/** Without a recall for this long, the shortage was over: the next one begins anew. */
const SHORTAGE_END = 1000000;
/** Nodes have this long to answer the first recall of a shortage. Later, refusals are immediate. */
const ANSWER_TIME = 250000;

export interface Shortage {
  clusterKey: string;
  /** The hash of the bucket that is short. */
  key: string;
  /** An app, or ALL_APPS if L1 is short. */
  app: string;
  /** Tokens that nodes hold. */
  held: number;
  /** Microseconds. */
  now: number;
}

/** Recalls tokens, unless that was done very recently. True while nodes may still answer. */
export function recallTokens(redis: RedisApi, { clusterKey, key, app, held, now }: Shortage): boolean {
  const stored = redis.call("HGET", key, "recall");
  const parts = stored === false ? [] : splitText(stored, " ");
  let since = parts.length === 4 ? storedNumber(parts[0]!, now) : now;
  const last = parts.length === 4 ? storedNumber(parts[1]!, 0) : 0;
  let gap = parts.length === 4 ? storedNumber(parts[2]!, SHORTEST_GAP) : SHORTEST_GAP;
  const elapsed = now - last;
  if (elapsed > SHORTAGE_END || elapsed < 0) {
    since = now;
    gap = SHORTEST_GAP;
  } else if (elapsed < gap) {
    return now - since < ANSWER_TIME;
  } else {
    const broughtBack = held < storedNumber(parts[3]!, 0);
    gap = broughtBack ? SHORTEST_GAP : Math.min(gap * 2, LONGEST_GAP);
  }
  redis.call("HSET", key, "recall", joinValues([since, now, gap, held], " ", MAX_COUNTER));
  redis.pcall("PUBLISH", recallChannel(clusterKey), app);
  return now - since < ANSWER_TIME;
}
