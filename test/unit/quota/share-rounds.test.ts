/** Shares of L1: they never sum to more than L1, whatever happens to the services that move them, and they follow demand. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shardOf, WHOLE_SHARE } from "../../../src/core/shard.js";
import type { Lock } from "../../../src/quota/lock.js";
import type { ShardQuota } from "../../../src/quota/quota.js";
import { createShareRounds } from "../../../src/quota/share-rounds.js";
import type { ShareRound } from "../../../src/scripts/common/share.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { createQuota } from "../../support/split-quota.js";

const START_US = 1_800_000_000_000_000;

/** What happens to a call: it takes `ms`, and the call or its reply may be lost. */
interface Fate {
  ms: number;
  lost: "no" | "call" | "reply";
}

const fate = fc.record({
  ms: fc.constantFrom(0, 0, 1, 1, 5, 50, 300, 900, 1600),
  lost: fc.constantFrom<Fate["lost"]>("no", "no", "no", "no", "no", "call", "reply"),
});

const step = fc.oneof(
  fc.record({ take: fc.integer({ min: 0, max: 3 }), tokens: fc.integer({ min: 100, max: 900 }) }),
  fc.record({ take: fc.integer({ min: 0, max: 3 }), tokens: fc.integer({ min: 300, max: 900 }) }),
  fc.record({ pass: fc.integer({ min: 100, max: 700 }) }),
  fc.record({ pass: fc.integer({ min: 1, max: 1500 }) }),
  fc.record({ restart: fc.integer({ min: 0, max: 1 }) }),
  fc.record({ resize: fc.integer({ min: 100, max: 2000 }) }),
);

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** Mistakes that the check must detect: a share is reduced after others are increased; an old round changes a share. */
type Mistake = "increases first" | "keeps old rounds";

/** Two services that both believe to hold the lock move shares of four shards, through faults. */
async function highestSum(fates: Fate[], steps: Step[], mistake?: Mistake) {
  const clock = createSimulatedClock();
  const store = createEmbeddedStore({ clock: () => START_US + clock.now() * 1000 });
  const cluster = { id: "c", capacity: 1000, rate: 500, nodeTtlMs: 3000, shards: 4 };
  const quota = createQuota(store, cluster);
  const begun = new Map<ShardQuota, ShareRound>();
  let turn = 0;
  let highest = 0;

  async function measure(): Promise<void> {
    const states = await Promise.all(quota.shards.map((shard) => shard.read()));
    const sum = (of: "capacity" | "rate") => states.reduce((total, { share }) => total + share[of], 0);
    highest = Math.max(highest, sum("capacity"), sum("rate"));
    for (const { tokens, held, share } of states) {
      // What a shard has and has given out fits into its share, unless L1 was made smaller.
      const room = (share.capacity / WHOLE_SHARE) * quota.limits().capacity - held;
      expect(tokens).toBeLessThanOrEqual(Math.max(room, 0) + 1e-6);
    }
  }

  function unreliable(shard: ShardQuota): ShardQuota {
    async function send<T>(call: () => Promise<T>): Promise<T> {
      const { ms, lost } = fates[turn++ % fates.length] ?? { ms: 0, lost: "no" };
      await new Promise<void>((resolve) => void clock.after(ms, resolve));
      if (lost === "call") throw new StoreError("timeout", "lost");
      const reply = await call();
      await measure();
      if (lost === "reply") throw new StoreError("timeout", "reply lost");
      return reply;
    }
    return {
      ...shard,
      read: (round = { round: 0, owner: "" }) =>
        send(async () => {
          const state = await shard.read(round);
          if (state.begun) begun.set(shard, round);
          return state;
        }),
      setShare: (round, share) =>
        send(async () => {
          const { share: before } = await shard.read();
          if (mistake === "increases first" && (share.capacity < before.capacity || share.rate < before.rate)) {
            clock.after(20, () => void shard.setShare(round, share));
            return { changed: true, share };
          }
          return shard.setShare(mistake === "keeps old rounds" ? (begun.get(shard) ?? round) : round, share);
        }),
    };
  }

  function startService(name: string) {
    const lock: Lock = {
      owner: name,
      take: async () => ({ ours: true, leftMs: 0 }),
      release: async () => lock.take(1),
    };
    const shards = quota.shards.map(unreliable);
    return createShareRounds({
      quota: { shards, limits: quota.limits },
      lock,
      clock,
      apps: () => [{ id: "a", guaranteed: 10, burst: 20, priority: 1, borrow: false }],
      failed: () => undefined,
    });
  }

  const services = [startService("one"), startService("two")];
  let started = 2;
  let seq = 0;
  for (const now of steps) {
    if ("take" in now) {
      seq++;
      const app = { id: idOn(now.take), guaranteed: 1000, burst: 100_000, priority: 1, borrow: false };
      const nothing = { granted: 0, spent: 0, returned: 0, want: 0 };
      await quota.grant({ node: `n${seq}`, epoch: 1, seq: 1 }, [{ ...nothing, app, need: now.tokens }]);
    } else if ("pass" in now) {
      await clock.advance(now.pass);
    } else if ("restart" in now) {
      // Like a crash: the old one's calls in flight still arrive.
      void services[now.restart]!.close();
      services[now.restart] = startService(`again-${started++}`);
    } else {
      quota.reconfigure({ ...cluster, capacity: now.resize });
    }
    await clock.advance(1);
  }
  await clock.advance(3000);
  await measure();
  return highest;
}

/** An app on this shard of four. */
function idOn(shard: number): string {
  for (let i = 0; ; i++) if (shardOf(`app-${i}`, 4) === shard) return `app-${i}`;
}

describe("with two services at once, lost calls, lost replies, crashes in the middle of a round and new limits", () => {
  const fates = fc.array(fate, { minLength: 5, maxLength: 100 });
  const steps = fc.array(step, { minLength: 10, maxLength: 60 });
  const property = (mistake?: Mistake) =>
    fc.asyncProperty(fates, steps, async (some, now) => (await highestSum(some, now, mistake)) <= WHOLE_SHARE);

  it("shares never sum to more than L1", async () => {
    await fc.assert(property(), { numRuns: 150, seed: 1 });
  });

  it.each<Mistake>(["increases first", "keeps old rounds"])("a service that %s is detected", async (mistake) => {
    const { failed, counterexample } = await fc.check(property(mistake), { numRuns: 150, seed: 1, endOnFailure: true });
    expect(failed, JSON.stringify(counterexample)).toBe(true);
  });
});
