/** The syncers of a limiter, one per shard: each has its own epoch, degradation level and messages. */
import { newEpoch } from "../engine/epoch.js";
import { type NodeOptions, newNode } from "../engine/node.js";
import type { LimiterAccount, LimiterNode } from "./accounts.js";
import type { ShardTarget } from "./limiter-contract.js";
import { createSyncer, type Syncer, type SyncerOptions } from "./syncer.js";

/** To each shard, this node is another one. */
export function newLimiterNodes(options: NodeOptions, shards: number): LimiterNode[] {
  const epoch = newEpoch(0, Date.now(), Math.random());
  const nodes: LimiterNode[] = [];
  for (let shard = 0; shard < shards; shard++) newNode(options, epoch, nodes);
  return nodes;
}

export interface ShardSyncersOptions extends Omit<SyncerOptions, "node" | "target"> {
  nodes: readonly LimiterNode[];
  target: { readonly shards: readonly ShardTarget[] };
}

export function createShardSyncers(options: ShardSyncersOptions) {
  const { clock, nodes } = options;
  const all = options.target.shards.map((target, shard) =>
    createSyncer({ ...options, node: nodes[shard] as LimiterNode, target }),
  );
  const first = all[0] as Syncer;
  let stopTicking = tickAfter(first.node.options.lease.syncIntervalMs);

  /** One timer for all shards: messages of the same turn to the same server are sent together. */
  function tickAfter(ms: number): () => void {
    return clock.after(ms, () => {
      stopTicking = tickAfter(first.node.options.lease.syncIntervalMs);
      for (const syncer of all) syncer.tick();
    });
  }

  return {
    all,
    of: ({ shard }: LimiterNode) => all[shard] as Syncer,
    isClosed: () => first.node.closed,
    setEmergency(active: boolean): void {
      for (const syncer of all) syncer.setEmergency(active);
    },
    pinLevel(level: number, durationMs: number): void {
      for (const syncer of all) syncer.pinLevel(level, durationMs);
    },
    reconfigure(targets: readonly ShardTarget[], removed: LimiterAccount[]): void {
      for (const [shard, target] of targets.entries()) all[shard]?.reconfigure(target, removed);
      stopTicking();
      stopTicking = tickAfter(first.node.options.lease.syncIntervalMs);
    },
    async close(): Promise<void> {
      stopTicking();
      await Promise.all(all.map((syncer) => syncer.close()));
    },
  };
}
