/** Random histories: whatever happens, no time window of an app or of the cluster exceeds burst + rate × time. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AppLimits } from "../../../src/core/app-limits.js";
import { BORROW_RATIO } from "../../../src/core/borrow.js";
import { price, standardProfile } from "../../../src/core/cost.js";
import type { Decision } from "../../../src/limiter/limiter.js";
import { createShareRounds } from "../../../src/quota/share-rounds.js";
import { createSimulation, limitedApp, type SimulatedNode } from "../../support/simulation.js";
import type { GrantRequest, Sender, ShardQuota } from "../../support/split-quota.js";
import { type Extra, type Stretch, type Taken, worstWindow } from "../../support/windows.js";

const IDS = ["a", "b"] as const;
type Id = (typeof IDS)[number];

const QUANTUM = 65_536;

interface Setup {
  nodes: number;
  latencyMs: number;
  cluster: { capacity: number; rate: number; shards: number };
  limits: Limits[];
}
interface Limits {
  guaranteed: number;
  burst: number;
  borrow: boolean;
}
type Step =
  | { kind: "requests"; node: number; app: Id; count: number; bytes: number; actualBytes: number; lastsMs: number }
  | { kind: "take"; node: number; app: Id; cost: number; givesBack: number }
  | { kind: "pass"; ms: number }
  | { kind: "reconfigure"; limits: Limits[] }
  | { kind: "emergency"; ms: number }
  | { kind: "borrow"; app: Id; amount: number }
  | { kind: "kill"; node: number }
  | { kind: "reconcile" };

const app = fc.constantFrom(...IDS);
const node = fc.nat(3);
const limits: fc.Arbitrary<Limits> = fc.record({
  guaranteed: fc.constantFrom(0, 5, 50, 400),
  burst: fc.constantFrom(5, 10, 40, 200),
  borrow: fc.constantFrom(false, false, true),
});
const bothLimits = fc.tuple(limits, limits).map((both) => [...both]);
const setup: fc.Arbitrary<Setup> = fc.record({
  nodes: fc.integer({ min: 2, max: 4 }),
  latencyMs: fc.constantFrom(1, 8),
  cluster: fc.constantFrom(
    { capacity: 1_000_000, rate: 1_000_000, shards: 1 },
    { capacity: 60, rate: 100, shards: 1 },
    { capacity: 60, rate: 100, shards: 2 },
    { capacity: 90, rate: 50, shards: 5 },
  ),
  limits: bothLimits,
});
const bytes = fc.constantFrom(0, QUANTUM, 3 * QUANTUM);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("requests" as const),
      ...{ node, app, bytes, count: fc.integer({ min: 1, max: 40 }) },
      actualBytes: fc.constantFrom(0, QUANTUM, 12 * QUANTUM),
      lastsMs: fc.constantFrom(0, 2, 150, 1_500),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("take" as const),
      ...{ node, app, cost: fc.integer({ min: 1, max: 12 }), givesBack: fc.constantFrom(0, 0.5, 1) },
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.constantFrom(1, 5, 20, 110, 400, 2_500) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("reconfigure" as const), limits: bothLimits }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("emergency" as const), ms: fc.constantFrom(50, 1_000) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("borrow" as const), app, amount: fc.integer({ min: 1, max: 40 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("kill" as const), node }) },
  { weight: 1, arbitrary: fc.constant({ kind: "reconcile" as const }) },
);

const appsOf = (given: Limits[]): AppLimits[] =>
  IDS.map((id, i) => limitedApp({ id, profile: standardProfile, onStoreFailure: "closed", ...given[i]! }));

/** Runs a history and returns the windows that exceed a limit. */
async function exceeded({ nodes: count, latencyMs, cluster, limits: first }: Setup, steps: Step[]) {
  let apps = appsOf(first);
  const simulation = createSimulation(apps, cluster);
  const { clock, quota, store } = simulation;
  store.latencyMs = latencyMs;
  if (cluster.shards > 1) {
    const lock = { owner: "n0", take: async () => ({ ours: true, leftMs: 0 }), release: async () => lock.take() };
    createShareRounds({ quota, lock, clock, apps: () => apps, failed: () => undefined });
  }
  let alive: SimulatedNode[] = Array.from({ length: count }, (_, i) => simulation.addNode(`n${i}`));
  const killed = new Set<SimulatedNode>();
  const taken: Record<Id, Taken[]> = { a: [], b: [] };
  const extras: Record<Id, Extra[]> = { a: [], b: [] };
  /** Refunds count when they are back: at once, or with the next message that is planned after them. */
  const refunds: { at: number; tokens: number; owner: string; id: Id }[] = [];
  /** Tokens that were lent may still be on a lease when a window begins: at most as many as can be owed. */
  const lent: Record<Id, number> = { a: 0, b: 0 };
  const stretches: Record<Id, Stretch[]> = { a: [], b: [] };
  /** Spend that dead nodes have not reported: it returns to the bucket when they are reconciled. */
  const unreported: Record<Id, number> = { a: 0, b: 0 };
  const ofAll: Extra[] = [];
  let operations = 0;
  const current = (id: Id) => apps.find((one) => one.id === id)!;
  const pick = (i: number) => alive[i % alive.length]!;

  function lend(id: Id, at: number, tokens: number): void {
    extras[id].push({ at, tokens });
    lent[id] = Math.min(lent[id] + tokens, Math.max(current(id).guaranteed * BORROW_RATIO, lent[id]));
  }

  /** Notes what a grant lends: it is part of the debt, at 120 %. */
  for (const shard of quota.shards) observeGrants(shard);

  function observeGrants(shard: ShardQuota): void {
    const { grant } = shard;
    shard.grant = (sender, requests, options) => observed(sender, requests, () => grant(sender, requests, options));
  }

  function observed<T>(sender: Sender, requests: GrantRequest[], call: () => Promise<T>): Promise<T> {
    const debts = () => Promise.all(requests.map((request) => quota.inspect(request.app)));
    const [before, answer, after] = [debts(), call(), debts()];
    const at = clock.now();
    const plannedAt = at - latencyMs / 2;
    for (const refund of refunds.filter(({ owner, at: since }) => owner === sender.node && since <= plannedAt)) {
      if (!requests.some((request) => request.app.id === refund.id)) continue;
      // At the same instant, the message may or may not include it.
      if (refund.at < plannedAt) refunds.splice(refunds.indexOf(refund), 1);
      const extra = { at, tokens: refund.tokens, since: refund.at };
      extras[refund.id].push(extra);
      ofAll.push(extra);
    }
    void Promise.all([before, after]).then(([old, now]) => {
      requests.forEach(({ app: { id } }, i) => {
        const tokens = (now[i]!.debt - old[i]!.debt) / 1.2;
        if (tokens > 0) lend(id as Id, at, tokens);
      });
    });
    return answer;
  }

  function begin(id: Id, held: number): void {
    const { guaranteed: rate, burst } = current(id);
    stretches[id].push({ from: clock.now(), to: Number.POSITIVE_INFINITY, rate, burst: Math.max(burst, held) });
  }
  for (const id of IDS) begin(id, 0);

  /** A dead node decides nothing, whatever it receives. */
  function whenDecided(owner: SimulatedNode, made: Decision | Promise<Decision>, act: (it: Decision) => void): void {
    const note = (decision: Decision) => {
      if (killed.has(owner) || !decision.allowed || decision.cost === 0) return;
      taken[decision.app as Id].push({ at: clock.now(), tokens: decision.cost });
      act(decision);
    };
    if (made instanceof Promise) void made.then(note);
    else note(made);
  }

  function refunded({ name: owner }: SimulatedNode, id: Id, tokens: number): void {
    if (tokens <= 0) return;
    const at = clock.now();
    taken[id].push({ at, tokens: -tokens });
    refunds.push({ at, tokens, owner, id });
  }

  async function heldOf(id: Id): Promise<number> {
    const { granted, spent, returned } = await quota.inspect(current(id));
    return granted - spent - returned;
  }

  async function reconfigure(next: Limits[]): Promise<void> {
    for (const id of IDS) stretches[id].at(-1)!.to = clock.now();
    apps = appsOf(next);
    for (const one of alive) one.reconfigure({ apps });
    // Messages under the old limits arrive; what nodes hold then can still be spent, and counts towards the new burst.
    await clock.advance(2 * latencyMs + 5);
    for (const id of IDS) begin(id, await heldOf(id));
  }

  async function kill(victim: SimulatedNode): Promise<void> {
    if (alive.length === 1) return;
    const balances = new Map(victim.limiter.balances().map((one) => [one.app, one.balance]));
    const lives = (await quota.nodes()).filter(({ node: name }) => name.startsWith(`${victim.name}@`));
    victim.kill();
    killed.add(victim);
    alive = alive.filter((one) => one !== victim);
    for (const { node: name } of lives) {
      for (const { app: id, granted, spent, returned } of (await quota.ledger(name)).apps) {
        unreported[id as Id] += Math.max(granted - spent - returned - (balances.get(id) ?? 0), 0);
      }
    }
  }

  async function reconcile(): Promise<void> {
    for (const one of apps) {
      const id = one.id as Id;
      const done = await quota.reconcile(one, { tolerance: 0.1, force: false, operation: `r${operations++}` });
      if (done === undefined || done.recoveredTokens === 0) continue;
      const extra = { at: clock.now(), tokens: unreported[id] };
      extras[id].push(extra);
      ofAll.push(extra);
      unreported[id] = 0;
    }
  }

  for (const one of steps) {
    if (one.kind === "pass") await clock.advance(one.ms);
    else if (one.kind === "reconfigure") await reconfigure(one.limits);
    else if (one.kind === "emergency") await quota.emergencyOn(one.ms, "test", "op", `e${operations++}`);
    else if (one.kind === "kill") await kill(pick(one.node));
    else if (one.kind === "reconcile") await reconcile();
    else if (one.kind === "borrow") {
      const { borrowed } = await quota.borrow(current(one.app), one.amount, `b${operations++}`);
      lend(one.app, clock.now(), borrowed);
    } else if (one.kind === "take") {
      const owner = pick(one.node);
      whenDecided(owner, owner.limiter.take(one.app, one.cost), ({ cost }) => {
        const back = Math.floor(cost * one.givesBack);
        owner.limiter.giveBack(one.app, back);
        refunded(owner, one.app, back);
      });
    } else {
      const owner = pick(one.node);
      for (let i = 0; i < one.count; i++) {
        whenDecided(owner, owner.limiter.check(one.app, "GET", one.bytes), (decision) => {
          clock.after(one.lastsMs, () => {
            if (killed.has(owner)) return;
            owner.limiter.settle(decision, 0, one.actualBytes);
            refunded(owner, one.app, decision.cost - price(standardProfile, "GET", one.actualBytes));
          });
        });
      }
    }
  }
  await clock.advance(2_000);
  const ofCluster = { from: 0, to: Number.POSITIVE_INFINITY, rate: cluster.rate, burst: cluster.capacity };
  return [
    ...IDS.flatMap((id) =>
      stretches[id].map((one) => worstWindow(taken[id], { ...one, burst: one.burst + lent[id] }, extras[id])),
    ),
    worstWindow([...taken.a, ...taken.b], ofCluster, ofAll),
  ].filter((window) => window !== undefined);
}

describe("in every history of requests, settlements, returns, recalls, borrowing, emergencies, new limits and dead nodes", () => {
  it("no window of an app or of the cluster exceeds burst + rate × time", async () => {
    await fc.assert(
      fc.asyncProperty(setup, fc.array(step, { minLength: 10, maxLength: 50, size: "max" }), async (given, steps) => {
        expect(await exceeded(given, steps)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});
