/** The quota of a cluster: its shards, and what concerns all of them. */
import type { BucketLimits } from "../core/app-limits.js";
import { shardOf, WHOLE_SHARE } from "../core/shard.js";
import type { RunOptions, Store, StoreKind } from "../store/store.js";
import { createNodeShares } from "./node-shares.js";
import type { ClusterLimits, CopiedEmergency } from "./shard-contract.js";
import { createShardCount } from "./shard-count.js";
import { createShardQuota, type ReconcileResult, type ShardQuota, type ShardState } from "./shard-quota.js";
import { shardTags } from "./shard-tags.js";

export type * from "./shard-contract.js";
export type * from "./shard-quota.js";

export type Quota = ReturnType<typeof createQuota>;

interface ListedNode {
  /** With its epoch. */
  node: string;
  silentMs: number;
  alive: boolean;
}

/** On Redis Cluster, enough shards for as many primaries; elsewhere more than one only costs. */
const SHARDS_ON_CLUSTER = 16;

export const defaultShards = (kind: StoreKind) => (kind === "redis-cluster" ? SHARDS_ON_CLUSTER : 1);

const NO_PLANES: readonly string[] = [];

/** Smaller differences of the end result from latency. */
const SAME_END_MS = 1000;
/** A shard that does not reply sooner must not delay an emergency on the others. */
const SOON = { deadlineMs: 300 };

export function createQuota(store: Store, cluster: ClusterLimits) {
  const count = cluster.shards ?? 1;
  let planes = cluster.planes ?? NO_PLANES;
  const { run, verify } = createShardCount(store, cluster.id, count);
  const { subscribe } = store;
  const shares = createNodeShares({ nodes: listNodes, planes: () => planes });
  const shards = shardTags(cluster.id, count).map((tag) =>
    createShardQuota({ store: { run, subscribe }, cluster, tag, partsFor: shares.partsFor }),
  );
  const first = shards[0] as ShardQuota;
  let limits: { capacity: number; rate: number } = cluster;

  function listNodes() {
    return merged(
      (shard) => shard.nodes(),
      (one) => one,
    );
  }

  const of = (app: string): ShardQuota => shards[shardOf(app, count)] as ShardQuota;

  /** Asks all shards. Those that do not reply are left out; rejects if none does. */
  async function fromEach<T>(ask: (shard: ShardQuota, index: number) => Promise<T>): Promise<T[]> {
    const replies = await Promise.allSettled(shards.map(ask));
    const found = replies.flatMap((reply) => (reply.status === "fulfilled" ? [reply.value] : []));
    const failed = replies.find((reply) => reply.status === "rejected");
    if (found.length === 0 && failed !== undefined) throw failed.reason;
    return found;
  }

  /** The nodes of all shards, or of those that reply. A node has a ledger and a last message on each shard that it uses. */
  async function merged<N extends ListedNode>(list: (shard: ShardQuota) => Promise<N[]>, add: (one: N, other: N) => N) {
    const byName = new Map<string, N>();
    for (const listed of await fromEach(list)) {
      for (const one of listed) {
        const known = byName.get(one.node);
        byName.set(one.node, known === undefined ? one : { ...add(one, known), ...latest(one, known) });
      }
    }
    return [...byName.values()];
  }

  function summary(states: ShardState[]) {
    const sum = (value: (state: ShardState) => number) => states.reduce((total, state) => total + value(state), 0);
    const tokens = sum((state) => state.tokens);
    const held = sum((state) => state.held);
    const room = (sum((state) => state.share.capacity) / WHOLE_SHARE) * limits.capacity;
    return {
      tokens,
      held,
      capacity: room,
      reserve: sum((state) => state.reserve),
      writtenOff: sum((state) => state.writtenOff),
      usage: room > 0 ? Math.min(Math.max(1 - (tokens + held) / room, 0), 1) : 1,
      ownShort: states.some((state) => state.ownShort),
    };
  }

  /** The state of each shard; undefined for those that do not reply. */
  async function states(options?: RunOptions): Promise<(ShardState | undefined)[]> {
    const replies = await Promise.allSettled(shards.map((shard) => shard.read(undefined, options)));
    return replies.map((reply) => (reply.status === "fulfilled" ? reply.value : undefined));
  }

  /** Shards that do not reply in time get it with a later check. */
  async function copyEmergency(emergency: CopiedEmergency, to = shards.slice(1)): Promise<void> {
    await Promise.allSettled(to.map((shard) => shard.emergencyCopy(emergency, SOON)));
  }

  return {
    /** In the order of their numbers. */
    shards,
    of,
    /** Rejects with a ShardMismatch if the cluster was created with another number of shards. */
    verify,

    /** Applies from the next call on. */
    reconfigure(changed: Omit<ClusterLimits, "id" | "shards">): void {
      limits = changed;
      planes = changed.planes ?? NO_PLANES;
      for (const shard of shards) shard.reconfigure(changed);
    },

    /** The configured limits of L1. */
    limits: () => limits,

    states,

    /** L1 over the shards that reply, in tokens, and its usage from 0 to 1. */
    cluster: async () => summary(await fromEach((shard) => shard.read())),

    /** Fills L1 on all shards. `apps` are all that are configured. */
    async refill(apps: readonly BucketLimits[], operation: string) {
      const done = await Promise.all(
        shards.map((shard) => {
          const own = apps.filter(({ id }) => of(id) === shard).map(({ id }) => id);
          return shard.refill(own, operation);
        }),
      );
      const add = (levels: { tokens: number; held: number }[]) => ({
        tokens: levels.reduce((sum, { tokens }) => sum + tokens, 0),
        held: levels.reduce((sum, { held }) => sum + held, 0),
      });
      return { before: add(done.map(({ before }) => before)), after: add(done.map(({ after }) => after)) };
    },

    nodes: listNodes,

    /** Nodes as `nodes` returns them, each with the tokens that it holds over all apps. */
    holdings: () =>
      merged(
        (shard) => shard.holdings(),
        (one, other) => ({ ...one, held: one.held + other.held }),
      ),

    /** The counters of a node in the store; `node` as returned by `nodes`. */
    async ledger(node: string) {
      const found = await fromEach((shard) => shard.ledger(node));
      return {
        closed: found.some(({ closed }) => closed),
        held: found.reduce((sum, { held }) => sum + held, 0),
        apps: found.flatMap(({ apps }) => apps).sort((a, b) => (a.app < b.app ? -1 : 1)),
      };
    },

    inspect: (app: BucketLimits) => of(app.id).inspect(app),
    borrow: (app: BucketLimits, amount: number, operation: string) => of(app.id).borrow(app, amount, operation),
    credit: (app: BucketLimits, amount: number, operation: string) => of(app.id).credit(app, amount, operation),
    repay: (app: BucketLimits, amount: number, operation: string) => of(app.id).repay(app, amount, operation),
    reconcile: (
      app: BucketLimits,
      how: { tolerance: number; force: boolean; operation: string },
    ): Promise<ReconcileResult | undefined> => of(app.id).reconcile(app, how),

    /** `durationMs` 0: no end. */
    async emergencyOn(durationMs: number, reason: string, operator: string, operation: string) {
      const reply = await first.emergencyOn(durationMs, reason, operator, operation);
      const { sinceMs } = reply;
      const { burstsStopped } = await first.read();
      await copyEmergency({
        ...{ active: true, source: "operator", sinceMs, leftMs: durationMs, burstsStopped, reason, operator },
      });
      return reply;
    },

    async emergencyOff(operation: string) {
      const reply = await first.emergencyOff(operation);
      await copyEmergency({
        ...{ active: false, source: "none", sinceMs: 0, leftMs: 0, burstsStopped: false, reason: "", operator: "" },
      });
      return reply;
    },

    /** The first shard decides, by the usage of all; the others get a copy. One service at a time should do this. */
    async emergencyCheck(cooldownMs: number, automatic: boolean) {
      if (count === 1) return first.emergencyCheck(cooldownMs, automatic);
      const replies = await states(SOON);
      const known = replies.filter((state) => state !== undefined);
      // The usage of a small part of the cluster says nothing about the rest.
      const decides = automatic && known.length * 2 > count;
      const reply = await first.emergencyCheck(cooldownMs, decides, summary(known));
      const differing = shards.filter((_, i) => {
        const state = replies[i];
        return i > 0 && state !== undefined && !isSame(reply, state);
      });
      await copyEmergency(reply, differing);
      return reply;
    },

    /** The emergency as one of the shards knows it: which one depends on the name, so that services ask different ones. */
    async emergencyState(name: string) {
      const { changed: _, ...state } = await of(name).emergencyCheck(0, false);
      return { ...state, changed: false };
    },
  };
}

function latest(one: ListedNode, other: ListedNode) {
  return { silentMs: Math.min(one.silentMs, other.silentMs), alive: one.alive || other.alive };
}

function isSame(one: CopiedEmergency, other: CopiedEmergency): boolean {
  if (one.active !== other.active || one.burstsStopped !== other.burstsStopped) return false;
  if (!one.active) return true;
  const sameEnd = (one.leftMs === 0) === (other.leftMs === 0) && Math.abs(one.leftMs - other.leftMs) < SAME_END_MS;
  const sameOrder = one.reason === other.reason && one.operator === other.operator;
  return one.source === other.source && one.sinceMs === other.sinceMs && sameEnd && sameOrder;
}
