/** What a limiter reports about itself. */
import { recentCalls } from "../core/degradation.js";
import { knownNodes } from "../engine/node.js";
import type { DecisionSource } from "./limiter-contract.js";
import type { Syncer } from "./syncer.js";

/** Decisions by source, and how many of them were refused. */
export type DecisionCounts = Record<DecisionSource | "refused" | "dryRunRefused", number>;

type RecentCalls = ReturnType<typeof recentCalls>;

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);

function worstCalls(shards: RecentCalls[]): RecentCalls {
  return shards.reduce((worst, one) =>
    one.errors > worst.errors || (one.errors === worst.errors && one.latencyMs > worst.latencyMs) ? one : worst,
  );
}

/** `syncers`: one per shard. */
export function limiterStats(counts: DecisionCounts, syncers: readonly Syncer[], now: number) {
  const { without_store: withoutStore, ...others } = counts;
  const levels = syncers.map((syncer) => syncer.level());
  const nodes = syncers.map(({ node }) => node);
  return {
    ...others,
    withoutStore,
    syncs: sum(nodes.map(({ syncs }) => syncs)),
    failedSyncs: sum(nodes.map(({ failures }) => failures)),
    level: Math.max(...levels),
    levels,
    storeCalls: worstCalls(nodes.map(({ degradation }) => recentCalls(degradation, now))),
    emergency: nodes.some(({ emergency }) => emergency),
    liveNodes: knownNodes(nodes[0]!),
  };
}
