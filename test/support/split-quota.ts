/** A quota that also takes messages of a node as a whole: it splits them by shard, and adds up the replies. */
import { shardOf } from "../../src/core/shard.js";
import {
  type ClusterLimits,
  createQuota as createPlainQuota,
  type GrantRequest,
  type NodeReply,
  type ReportRequest,
  type Sender,
  type ShardQuota,
} from "../../src/quota/quota.js";
import type { RunOptions, Store } from "../../src/store/store.js";

export type * from "../../src/quota/quota.js";

export type SplitQuota = ReturnType<typeof createQuota>;

export function createQuota(store: Store, cluster: ClusterLimits) {
  const quota = createPlainQuota(store, cluster);
  const { shards } = quota;
  /** By shard and node: the numbers of its messages to that shard. */
  const numbers = new Map<string, Map<number, number>>();

  /** A node numbers its messages to each shard from 1 on. */
  function numbered(shard: number, sender: Sender): Sender {
    if (shards.length === 1) return sender;
    const key = `${shard} ${sender.node}@${sender.epoch}`;
    const known = numbers.get(key) ?? new Map<number, number>();
    numbers.set(key, known);
    const own = known.get(sender.seq) ?? Math.max(0, ...known.values()) + 1;
    known.set(sender.seq, own);
    return { ...sender, seq: own };
  }

  async function split<R extends ReportRequest, A extends { app: string }>(
    sender: Sender,
    requests: R[],
    call: (shard: ShardQuota, sender: Sender, own: R[]) => Promise<NodeReply & { apps: A[] }>,
    toAll = false,
  ): Promise<NodeReply & { apps: A[] }> {
    const parts = shards.map((_, shard) => requests.filter(({ app }) => shardOf(app.id, shards.length) === shard));
    const used = parts.flatMap((own, shard) =>
      own.length > 0 || toAll || (requests.length === 0 && shard === 0) ? [{ shard, own }] : [],
    );
    const replies = await Promise.all(
      used.map(({ shard, own }) => call(shards[shard] as ShardQuota, numbered(shard, sender), own)),
    );
    const first = replies.find(({ code }) => code !== "ok") ?? (replies[0] as (typeof replies)[number]);
    const byApp = new Map(replies.flatMap(({ apps }) => apps).map((one) => [one.app, one]));
    const apps = requests.flatMap(({ app }) => byApp.get(app.id) ?? []);
    const liveNodes = Math.max(...replies.map((reply) => reply.liveNodes));
    return { ...first, liveNodes, apps };
  }

  return {
    ...quota,
    grant: (sender: Sender, requests: GrantRequest[], options?: RunOptions) =>
      split(sender, requests, (shard, from, own) => shard.grant(from, own, options)),
    report: (sender: Sender, requests: ReportRequest[], leave: boolean, options?: RunOptions) =>
      split(sender, requests, (shard, from, own) => shard.report(from, own, leave, options), leave),
    async heartbeat(sender: { node: string; epoch: number }): Promise<NodeReply> {
      const replies = await Promise.all(shards.map((shard) => shard.heartbeat(sender)));
      return replies.find(({ code }) => code !== "ok") ?? (replies[0] as NodeReply);
    },
  };
}
