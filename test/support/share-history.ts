/** Random histories of services that move shares of L1 between shards, crash in the middle, and whose calls arrive late. */
import fc from "fast-check";
import { shardOf, WHOLE_SHARE } from "../../src/core/shard.js";
import { createQuota } from "../../src/quota/quota.js";
import type { ShareRound } from "../../src/scripts/common/share.js";
import { type DrivenStore, START } from "./driven-store.js";
import { BrokenPromise } from "./quota-model.js";

const SECOND = 1_000_000;
const SHARDS = 4;
const OWNERS = ["one", "two"];
const CLUSTER = { capacity: 1000, rate: 100, nodeTtlMs: 3000, shards: SHARDS };
/** Of L1, for the shard that a round favours. The others share the rest. */
const FAVOURED = 0.7;

export type ShareStep =
  /** `calls`: after so many calls that change a share the service dies; the others are still on their way. */
  | { kind: "round"; owner: number; shard: number; calls: number }
  | { kind: "late"; back: number }
  | { kind: "take"; shard: number; tokens: number }
  | { kind: "clock"; seconds: number };

const shard = fc.nat({ max: SHARDS - 1 });

export const shareHistory: fc.Arbitrary<ShareStep[]> = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("round" as const),
        owner: fc.nat({ max: OWNERS.length - 1 }),
        shard,
        calls: fc.nat({ max: SHARDS + 1 }),
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("late" as const), back: fc.nat({ max: 8 }) }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("take" as const), shard, tokens: fc.integer({ min: 1, max: 400 }) }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("clock" as const), seconds: fc.constantFrom(0.1, 0.5, 2) }) },
  ),
  { minLength: 5, maxLength: 40, size: "max" },
);

/** Throws BrokenPromise if the shares sum to more than L1, or a shard has or has given out more than its share. */
export async function playShares(store: DrivenStore, id: string, steps: ShareStep[]): Promise<void> {
  store.clock.now = START;
  const quota = createQuota(store, { id, ...CLUSTER });
  const rounds = OWNERS.map(() => 0);
  const onTheirWay: (() => Promise<unknown>)[] = [];
  let nodes = 0;

  /** As `quota/share-rounds.ts` does it: begins on all shards, reduces, then increases by what is free. */
  async function round(owner: number, favoured: number, calls: number): Promise<void> {
    const current: ShareRound = { round: ++rounds[owner]!, owner: OWNERS[owner]! };
    const states = await Promise.all(quota.shards.map((one) => one.read(current)));
    if (states.some(({ begun }) => !begun)) {
      rounds[owner] = Math.max(...states.map((state) => state.round));
      return;
    }
    const targets = states.map((_, i) =>
      Math.floor(WHOLE_SHARE * (i === favoured ? FAVOURED : (1 - FAVOURED) / (SHARDS - 1))),
    );
    let left = calls;
    const set = async (i: number, capacity: number, rate: number) => {
      const send = () => quota.shards[i]!.setShare(current, { capacity, rate });
      if (left-- > 0) return send();
      onTheirWay.push(send);
      return undefined;
    };
    const shares = states.map(({ share }) => share);
    for (const [i, { share }] of states.entries()) {
      const lower = { capacity: Math.min(share.capacity, targets[i]!), rate: Math.min(share.rate, targets[i]!) };
      if (lower.capacity === share.capacity && lower.rate === share.rate) continue;
      const reply = await set(i, lower.capacity, lower.rate);
      // A call whose reply is missing counts as if nothing was reduced.
      if (reply !== undefined && !reply.changed) return;
      shares[i] = reply?.share ?? share;
    }
    const free = (of: "capacity" | "rate") => WHOLE_SHARE - shares.reduce((sum, one) => sum + one[of], 0);
    const { capacity, rate } = shares[favoured]!;
    const up = (now: number, room: number) => Math.min(Math.max(now, targets[favoured]!), now + Math.max(room, 0));
    await set(favoured, up(capacity, free("capacity")), up(rate, free("rate")));
  }

  async function perform(now: ShareStep): Promise<void> {
    if (now.kind === "round") await round(now.owner, now.shard, now.calls);
    else if (now.kind === "late") await onTheirWay.at(-1 - now.back)?.();
    else if (now.kind === "clock") store.clock.now += now.seconds * SECOND;
    else {
      const app = { id: idOn(now.shard), guaranteed: 1000, burst: 100_000, priority: 1, borrow: false };
      const request = { app, granted: 0, spent: 0, returned: 0, need: now.tokens, want: now.tokens };
      await quota.shards[now.shard]!.grant({ node: `n${++nodes}`, epoch: 1, seq: 1 }, [request]);
    }
  }

  for (const now of steps) {
    await perform(now);
    const states = await Promise.all(quota.shards.map((one) => one.read()));
    for (const of of ["capacity", "rate"] as const) {
      const sum = states.reduce((total, { share }) => total + share[of], 0);
      if (sum > WHOLE_SHARE) throw new BrokenPromise(`I1: shares of the ${of} sum to ${sum} after ${now.kind}`);
    }
    for (const { tokens, held, share } of states) {
      const room = (share.capacity / WHOLE_SHARE) * CLUSTER.capacity;
      if (tokens + held > room + 1e-6) throw new BrokenPromise(`I1: ${tokens} left and ${held} held of ${room}`);
    }
  }
}

/** An app on this shard. */
function idOn(wanted: number): string {
  for (let i = 0; ; i++) if (shardOf(`app-${i}`, SHARDS) === wanted) return `app-${i}`;
}
