/**
 * Moves shares of L1 between shards, about twice a second, by the service that holds the lock.
 *
 * A round first begins on every shard, which ends all earlier rounds there and reads the shares. Then it reduces shares, and
 * only with what was reduced, or was unused, it increases others. So the shares never sum to more than L1, even if a
 * service dies, replies are lost, or two services run rounds at once; at worst a part stays unused until the next round.
 */
import type { BucketLimits } from "../core/app-limits.js";
import { equalShare, shardOf, WHOLE_SHARE } from "../core/shard.js";
import type { ShareRound } from "../scripts/common/share.js";
import type { Clock } from "../shared/clock.js";
import type { Lock } from "./lock.js";
import type { Quota } from "./quota.js";
import type { ShardQuota, ShardState } from "./shard-quota.js";
import { isRebalanceDue, type ShardDemand, type SharePair, sumOf, targetShares } from "./shares.js";

export interface ShareRoundsOptions {
  quota: Pick<Quota, "shards" | "limits">;
  /** Its owner also identifies the rounds of this process. */
  lock: Lock;
  clock: Clock;
  /** The currently configured apps. */
  apps(): readonly BucketLimits[];
  failed(error: unknown): void;
  intervalMs?: number;
}

/** What the last round read, to compute demand from. */
interface Snapshot {
  at: number;
  states: (ShardState | undefined)[];
}

const INTERVAL_MS = 500;
/** A shard that does not reply sooner is left out of the round. */
const CALL_MS = 400;
/** If a service dies, another one continues after this time. */
const LOCK_MS = 2_000;

export function createShareRounds(options: ShareRoundsOptions) {
  const { quota, lock, clock, intervalMs = INTERVAL_MS } = options;
  const { shards } = quota;
  const deadline = { deadlineMs: CALL_MS };
  let round = 0;
  let before: Snapshot | undefined;
  let running: Promise<void> | undefined;
  let closed = false;
  let mayHold = false;
  let heldUntil = 0;
  let cancel = clock.after(0, tick);

  function tick(): void {
    running = attempt()
      .catch((error: unknown) => {
        options.failed(error);
        return intervalMs;
      })
      .then((pauseMs) => {
        running = undefined;
        if (!closed) cancel = clock.after(pauseMs, tick);
      });
  }

  /** Returns the delay until the next attempt. */
  async function attempt(): Promise<number> {
    mayHold = true;
    const { ours, leftMs } = await lock.take(LOCK_MS);
    mayHold = ours;
    heldUntil = ours ? clock.now() + LOCK_MS : 0;
    if (!ours) {
      before = undefined;
      return Math.max(leftMs, 1);
    }
    if (!closed) await runRound();
    return intervalMs;
  }

  async function runRound(): Promise<void> {
    const now = clock.now();
    round++;
    const current: ShareRound = { round, owner: lock.owner };
    const replies = await settled(shards.map((shard) => shard.read(current, deadline)));
    const latest = Math.max(...replies.map((state) => state?.round ?? 0));
    if (replies.some((state) => state?.begun === false)) {
      // Another service was faster. The next attempt has a higher number.
      round = latest;
      before = undefined;
      return;
    }
    const earlier = before;
    before = { at: now, states: replies };
    const known = replies.flatMap((state, shard) => (state === undefined ? [] : [{ shard, state }]));
    // A shard that did not reply keeps its share, which is unknown: the others share what they have together.
    const complete = known.length === shards.length;
    const pool = complete ? { capacity: WHOLE_SHARE, rate: WHOLE_SHARE } : sumOf(known.map(({ state }) => state.share));
    const demands = demandOf(known, earlier, now);
    if (known.length === 0 || (!areInitial(known) && !isRebalanceDue(demands, pool))) return;
    await move(
      current,
      known.map(({ shard, state }) => ({ shard, share: state.share })),
      targetShares(demands, pool, fillSeconds()),
      pool,
    );
  }

  function fillSeconds(): number {
    const { capacity, rate } = quota.limits();
    return Math.max(capacity, 1) / Math.max(rate, 1e-6);
  }

  function demandOf(known: { shard: number; state: ShardState }[], earlier: Snapshot | undefined, now: number) {
    const { capacity, rate } = quota.limits();
    const { weights, guaranteed } = shardWeights(options.apps(), shards.length, rate);
    const seconds = earlier === undefined ? 0 : (now - earlier.at) / 1000;
    return known.map(({ shard, state }): ShardDemand => {
      const last = earlier?.states[shard];
      const since = (one: number, other: number | undefined) => (other === undefined ? 0 : Math.max(one - other, 0));
      const refused = since(state.refused, last?.refused);
      const tokens = since(state.taken, last?.taken) + refused;
      return {
        share: state.share,
        // Without an earlier round nothing is known about demand: the shares stay in proportion.
        wanted: last === undefined || seconds <= 0 ? 0 : tokens / seconds / Math.max(rate, 1e-6),
        isShort: refused > 0,
        largest: Math.min(state.largestRefused / Math.max(capacity, 1), 1),
        weight: weights[shard] as number,
        guaranteed: guaranteed[shard] as number,
      };
    });
  }

  /** No round has changed a share yet. */
  function areInitial(known: { state: ShardState }[]): boolean {
    const equal = equalShare(shards.length);
    return known.every(({ state: { share } }) => share.capacity === equal && share.rate === equal);
  }

  /** Reduces, then increases. Stops if a later round has begun. */
  async function move(
    current: ShareRound,
    from: { shard: number; share: SharePair }[],
    targets: SharePair[],
    pool: SharePair,
  ): Promise<void> {
    const reduced = await settled(
      from.map(async ({ shard, share }, i) => {
        const target = targets[i] as SharePair;
        const lower = { capacity: Math.min(share.capacity, target.capacity), rate: Math.min(share.rate, target.rate) };
        if (lower.capacity === share.capacity && lower.rate === share.rate) return { changed: true, share };
        return (shards[shard] as ShardQuota).setShare(current, lower, deadline);
      }),
    );
    if (reduced.some((reply) => reply?.changed === false)) return;
    // Without a reply the share may be reduced or not: it counts as if it were not.
    const shares = from.map(({ share }, i) => reduced[i]?.share ?? share);
    const sum = sumOf(shares);
    const missing = shares.map((share, i) => ({
      capacity: reduced[i] === undefined ? 0 : Math.max((targets[i] as SharePair).capacity - share.capacity, 0),
      rate: reduced[i] === undefined ? 0 : Math.max((targets[i] as SharePair).rate - share.rate, 0),
    }));
    const wanted = sumOf(missing);
    const part = (free: number, all: number) => (all > 0 ? Math.min(Math.max(free, 0) / all, 1) : 0);
    const capacityPart = part(pool.capacity - sum.capacity, wanted.capacity);
    const ratePart = part(pool.rate - sum.rate, wanted.rate);
    await settled(
      from.map(async ({ shard }, i) => {
        const share = shares[i] as SharePair;
        const more = missing[i] as SharePair;
        const higher = {
          capacity: share.capacity + Math.floor(more.capacity * capacityPart),
          rate: share.rate + Math.floor(more.rate * ratePart),
        };
        if (higher.capacity === share.capacity && higher.rate === share.rate) return;
        await (shards[shard] as ShardQuota).setShare(current, higher, deadline);
      }),
    );
  }

  /** The replies; undefined for calls that failed. */
  async function settled<T>(calls: Promise<T>[]): Promise<(T | undefined)[]> {
    const replies = await Promise.allSettled(calls);
    return replies.map((reply) => {
      if (reply.status === "fulfilled") return reply.value;
      options.failed(reply.reason);
      return undefined;
    });
  }

  return {
    /** Whether this service has the lock, and with it the duties of one service for all shards. */
    holdsLock: () => clock.now() < heldUntil,

    /** Finishes the running round. Never rejects. */
    async close(): Promise<void> {
      closed = true;
      cancel();
      await running;
      if (mayHold) await lock.release().catch(options.failed);
    },
  };
}

/** A part of L1 that is divided equally: an app may be configured here later than elsewhere. */
const EQUAL_WEIGHT = 0.1;

/** The guaranteed rates of the apps on each shard: as fractions that sum to 1, and as fractions of the cluster's rate. */
function shardWeights(apps: readonly BucketLimits[], shards: number, clusterRate: number) {
  const rates = new Array<number>(shards).fill(0);
  let all = 0;
  for (const { id, guaranteed } of apps) {
    const shard = shardOf(id, shards);
    rates[shard] = (rates[shard] as number) + guaranteed;
    all += guaranteed;
  }
  return {
    weights: rates.map((rate) => (all > 0 ? (rate / all) * (1 - EQUAL_WEIGHT) + EQUAL_WEIGHT / shards : 1 / shards)),
    guaranteed: rates.map((rate) => rate / Math.max(all, clusterRate, 1e-6)),
  };
}
