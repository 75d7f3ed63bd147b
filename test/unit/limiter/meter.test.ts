/** Transfers of unknown length: tokens are taken before the bytes pass, and the total is exact after the settlement. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AppLimits, UnknownLength } from "../../../src/core/app-limits.js";
import { bandwidthProfile, type CostProfile, price, standardProfile, UNKNOWN_LENGTH } from "../../../src/core/cost.js";
import type { Decision, Meter } from "../../../src/limiter/limiter.js";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../support/simulation.js";

const PATIENCE_MS = 2_000;

interface Transfer {
  decision: Decision;
  meter: Meter | undefined;
  /** Bytes that have passed. */
  passed: number;
  held: number;
  refusal: Decision | undefined;
  ended: boolean;
}

function begin(node: SimulatedNode, decision: Decision, knownBytes = 0): Transfer {
  const transfer: Transfer = { decision, meter: undefined, passed: 0, held: 0, refusal: undefined, ended: false };
  transfer.meter = node.limiter.meter(decision, {
    knownBytes,
    patienceMs: PATIENCE_MS,
    paid() {
      expect(transfer).toMatchObject({ ended: false, refusal: undefined });
      transfer.passed += transfer.held;
      transfer.held = 0;
    },
    refused(refusal) {
      expect(transfer).toMatchObject({ ended: false, refusal: undefined });
      transfer.refusal = refusal;
      end(node, transfer);
    },
  });
  return transfer;
}

/** Both directions of a transfer may add bytes while others are held. */
function add(transfer: Transfer, bytes: number, direction: "request" | "response" = "request"): void {
  if (transfer.ended) return;
  if (transfer.meter === undefined || transfer.meter.add(bytes, direction)) transfer.passed += bytes;
  else transfer.held += bytes;
}

function end(node: SimulatedNode, transfer: Transfer): void {
  if (transfer.ended) return;
  transfer.ended = true;
  transfer.meter?.close();
  node.limiter.settle(transfer.decision, transfer.passed, 0, { metered: transfer.meter?.taken });
}

/** What has passed is paid, except for one incomplete quantum. */
function expectPaid({ decision, meter, passed }: Transfer, profile: CostProfile): void {
  const complete = Math.floor(passed / profile.quantum) * profile.quantum;
  expect(price(profile, decision.method, complete)).toBeLessThanOrEqual(decision.cost + meter!.taken);
}

async function admit(s: Simulation, node: SimulatedNode): Promise<Decision> {
  const decision = await s.during(node.limiter.check("app", "PUT", UNKNOWN_LENGTH));
  expect(decision).toMatchObject({ allowed: true, code: "ok" });
  return decision;
}

async function spentOf(s: Simulation, app: AppLimits): Promise<number> {
  return (await s.quota.inspect(app)).spent;
}

function createMetered(unknownLength: UnknownLength, more: Partial<AppLimits> = {}) {
  const app = limitedApp({ id: "app", guaranteed: 10, burst: 20, unknownLength, ...more });
  const s = createSimulation([app]);
  return { app, s, node: s.addNode("node") };
}

const QUANTUM = standardProfile.quantum;

/** One quantum after the other, each when the one before has passed. */
async function sendUntilEnded(s: Simulation, transfer: Transfer): Promise<void> {
  while (!transfer.ended) {
    if (transfer.held === 0) add(transfer, QUANTUM);
    await s.clock.advance(1);
  }
}

describe("a transfer of unknown length", () => {
  it("with `cut` is refused with the first bytes that cannot be paid", async () => {
    const { s, node, app } = createMetered("cut", { guaranteed: 0.001 });
    const transfer = begin(node, await admit(s, node));
    await sendUntilEnded(s, transfer);
    expect(transfer.refusal).toMatchObject({ allowed: false, code: "quota_exhausted", app: "app" });
    expect(transfer.passed).toBe(15 * QUANTUM);
    await s.during(node.limiter.close());
    expect(await spentOf(s, app)).toBe(20);
  });

  it("with `delay` passes at the rate of the app", async () => {
    const { s, node } = createMetered("delay");
    const transfer = begin(node, await admit(s, node));
    const started = s.clock.now();
    while (transfer.passed < 115 * QUANTUM) {
      if (transfer.held === 0) add(transfer, QUANTUM);
      expect(transfer.ended).toBe(false);
      await s.clock.advance(10);
    }
    // The burst pays for 15 quanta, the rate for the other 100.
    expect(s.clock.now() - started).toBeGreaterThanOrEqual(9_900);
    expect(s.clock.now() - started).toBeLessThan(13_000);
  });

  it("with `delay` is refused after its patience without a token, not earlier", async () => {
    const { s, node } = createMetered("delay", { guaranteed: 0.001 });
    const transfer = begin(node, await admit(s, node));
    // A transfer also waits for a moment while the node fetches tokens.
    for (let stuckMs = 0; stuckMs < 100; stuckMs += 10) {
      if (transfer.held === 0) {
        add(transfer, QUANTUM);
        stuckMs = 0;
      }
      await s.clock.advance(10);
    }
    await s.clock.advance(PATIENCE_MS - 300);
    expect(transfer.ended).toBe(false);
    await s.clock.advance(1_200);
    expect(transfer).toMatchObject({ ended: true, passed: 15 * QUANTUM });
  });

  it("with a chunk that costs more than the burst takes several steps", async () => {
    const { s, node, app } = createMetered("delay", { profile: bandwidthProfile });
    const transfer = begin(node, await admit(s, node));
    add(transfer, 50 * bandwidthProfile.quantum);
    expect(transfer.passed).toBe(0);
    await s.clock.advance(10_000);
    expect(transfer.passed).toBe(50 * bandwidthProfile.quantum);
    end(node, transfer);
    await s.during(node.limiter.close());
    expect(await spentOf(s, app)).toBe(51);
  });

  it("counts the bytes that were known before", async () => {
    const { s, node } = createMetered("cut");
    const decision = await s.during(node.limiter.check("app", "PUT", 10 * QUANTUM));
    const transfer = begin(node, decision, 10 * QUANTUM);
    add(transfer, 2 * QUANTUM);
    expect(transfer.meter?.taken).toBe(2);
  });

  it.each(["request", "response"] as const)(
    "is charged for the %s only, if its profile counts that",
    async (counted) => {
      const { s, node } = createMetered("cut", { profile: { ...standardProfile, countedBytes: counted } });
      const transfer = begin(node, await admit(s, node), 3 * QUANTUM);
      const other = counted === "request" ? "response" : "request";
      add(transfer, 100 * QUANTUM, other);
      expect(transfer).toMatchObject({ passed: 100 * QUANTUM, held: 0 });
      add(transfer, 2 * QUANTUM, counted);
      expect(transfer.meter?.taken).toBe(counted === "request" ? 5 : 2);
    },
  );

  it.each<[string, Partial<AppLimits>]>([
    ["with `charge`", { unknownLength: "charge" }],
    ["on a dry run", { dryRun: true }],
    ["if bytes cost nothing", { profile: { ...standardProfile, bandwidth: 0 } }],
  ])("is not metered %s", async (_, more) => {
    const { s, node } = createMetered("cut", more);
    expect(begin(node, await admit(s, node)).meter).toBeUndefined();
  });

  it("is not a decision of its own for the observer", async () => {
    const { s } = createMetered("cut", { guaranteed: 0.001 });
    let decisions = 0;
    const node = s.addNode("observed", { observer: { decided: () => decisions++ } });
    const transfer = begin(node, await admit(s, node));
    await sendUntilEnded(s, transfer);
    expect(transfer.refusal).toBeDefined();
    expect(decisions).toBe(1);
  });

  it("passes when its app is removed or put on a dry run while it waits", async () => {
    for (const apps of [[], [limitedApp({ id: "app", burst: 20, unknownLength: "delay", dryRun: true })]]) {
      const { s, node } = createMetered("delay", { guaranteed: 0.001 });
      const transfer = begin(node, await admit(s, node));
      while (transfer.held === 0) {
        add(transfer, QUANTUM);
        await s.clock.advance(1);
      }
      node.reconfigure({ apps: [...apps, limitedApp({ id: "default" })] });
      await s.clock.advance(1_100);
      expect(transfer).toMatchObject({ held: 0, ended: false });
    }
  });

  it("follows on_store_failure without the store", async () => {
    const { s, node } = createMetered("cut", { onStoreFailure: "closed" });
    const transfer = begin(node, await admit(s, node));
    s.store.mode = "refusing";
    await sendUntilEnded(s, transfer);
    expect(transfer.refusal).toMatchObject({ code: "store_unavailable" });
  });
});

interface Plan {
  node: number;
  startMs: number;
  chunks: { bytes: number; afterMs: number }[];
  endAfterMs: number;
}

const plan: fc.Arbitrary<Plan> = fc.record({
  node: fc.nat(1),
  startMs: fc.nat(3_000),
  chunks: fc.array(
    fc.record({ bytes: fc.constantFrom(1, 1_024, 40_000, 65_536, 300_000), afterMs: fc.constantFrom(0, 1, 20, 500) }),
    { maxLength: 12 },
  ),
  endAfterMs: fc.constantFrom(0, 1, 100, 5_000),
});

const history = fc.record({
  plans: fc.array(plan, { minLength: 1, maxLength: 12 }),
  unknownLength: fc.constantFrom<UnknownLength>("cut", "delay", "charge"),
  profile: fc.constantFrom(standardProfile, bandwidthProfile, { ...standardProfile, maxCost: 7 }),
  burst: fc.constantFrom(6, 20, 500),
  guaranteed: fc.constantFrom(0.001, 10, 300),
});

describe("in any history of transfers", () => {
  it("what is paid after the settlement is the price of the bytes that have passed, and no bytes pass unpaid", async () => {
    await fc.assert(
      fc.asyncProperty(history, async ({ plans, unknownLength, profile, burst, guaranteed }) => {
        const app = limitedApp({ id: "app", guaranteed, burst, profile, unknownLength });
        const s = createSimulation([app]);
        const nodes = [s.addNode("a"), s.addNode("b")];
        const transfers: Transfer[] = [];
        async function run({ node: at, startMs, chunks, endAfterMs }: Plan): Promise<void> {
          const node = nodes[at]!;
          const pause = (ms: number) => new Promise<void>((resolve) => void s.clock.after(ms, resolve));
          await pause(startMs);
          const decision = await node.limiter.check("app", "PUT", UNKNOWN_LENGTH);
          if (!decision.allowed) return;
          const transfer = begin(node, decision);
          transfers.push(transfer);
          for (const { bytes, afterMs } of chunks) {
            if (afterMs > 0) await pause(afterMs);
            add(transfer, bytes);
            if (transfer.meter !== undefined) expectPaid(transfer, profile);
          }
          await pause(endAfterMs);
          end(node, transfer);
        }
        await s.during(Promise.all(plans.map(run)));
        for (const { limiter } of nodes) await s.during(limiter.close());
        const actual = transfers.reduce((sum, { passed }) => sum + price(profile, "PUT", passed), 0);
        expect(await spentOf(s, app)).toBe(actual);
      }),
      { numRuns: 60 },
    );
  });
});
