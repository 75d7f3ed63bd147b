/** Random histories of requests, reloads and faults: nothing that was spent is forgotten, nothing is charged twice. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AppLimits } from "../../../src/core/app-limits.js";
import { bandwidthProfile, price, standardProfile } from "../../../src/core/cost.js";
import type { Decision } from "../../../src/limiter/limiter.js";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../support/simulation.js";

const IDS = ["default", "a", "b", "c"];
const NODES = 3;

interface Reload {
  apps: AppLimits[];
  unknownApps: "default" | "reject";
}

type Step =
  | { kind: "request"; node: number; app: string; method: string; bytes: number; lastsMs: number }
  | { kind: "reload"; nodes: number[]; reload: Reload }
  | { kind: "store"; mode: Simulation["store"]["mode"]; latencyMs: number }
  | { kind: "pass"; ms: number };

const limitedApps: fc.Arbitrary<AppLimits[]> = fc
  .subarray(IDS, { minLength: 1 })
  .chain((ids) =>
    fc.tuple(
      ...ids.map((id) =>
        fc.record({
          id: fc.constant(id),
          guaranteed: fc.constantFrom(0, 5, 50, 500),
          burst: fc.constantFrom(1, 10, 100, 1000),
          borrow: fc.boolean(),
          profile: fc.constantFrom(standardProfile, bandwidthProfile),
          onStoreFailure: fc.constantFrom("open" as const, "local" as const, "closed" as const),
          dryRun: fc.boolean(),
        }),
      ),
    ),
  )
  .map((apps) => apps.map(limitedApp));

const reload: fc.Arbitrary<Reload> = fc.record({
  apps: limitedApps,
  unknownApps: fc.constantFrom("default" as const, "reject" as const),
});

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant("request" as const),
      node: fc.nat(NODES - 1),
      app: fc.constantFrom(...IDS, "stranger"),
      method: fc.constantFrom("GET", "PUT", "BREW"),
      bytes: fc.constantFrom(0, 1, 5_000, 200_000),
      lastsMs: fc.constantFrom(0, 3, 150, 4_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("reload" as const),
      nodes: fc.subarray([0, 1, 2], { minLength: 1 }),
      reload,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("store" as const),
      mode: fc.constantFrom("up" as const, "up" as const, "refusing" as const, "hanging" as const, "mute" as const),
      latencyMs: fc.constantFrom(0, 1, 30),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.constantFrom(0, 2, 40, 700, 3_000) }),
  },
);

/** Runs a history, keeping a ledger of its own: what each app's requests cost in the end. */
async function run(first: Reload, steps: Step[]) {
  const simulation = createSimulation(first.apps, { nodeTtlMs: 3_600_000 }, { unknownApps: first.unknownApps });
  const { clock, store } = simulation;
  const nodes = Array.from({ length: NODES }, (_, i) => simulation.addNode(`n${i}`));
  /** Per node, the limits under which an app's exchanges settle: the last it had. */
  const policies = nodes.map(() => new Map(first.apps.map((app) => [app.id, app])));
  const spent = new Map(IDS.map((id) => [id, 0]));
  const charge = (app: string, tokens: number) => spent.set(app, spent.get(app)! + tokens);
  let unanswered = 0;
  let running = 0;

  function ended(i: number, made: Decision, bytes: number): void {
    running--;
    nodes[i]!.limiter.settle(made, bytes, bytes);
    if (made.code === "ok")
      charge(made.app, price(policies[i]!.get(made.app)!.profile, made.method, 2 * bytes) - made.cost);
  }

  function request({ node, app, method, bytes, lastsMs }: Extract<Step, { kind: "request" }>): void {
    unanswered++;
    const decided = (made: Decision) => {
      unanswered--;
      if (!made.allowed) return;
      if (made.code === "ok") charge(made.app, made.cost);
      running++;
      clock.after(lastsMs, () => ended(node, made, bytes));
    };
    const made = nodes[node]!.limiter.check(app, method, bytes);
    if (made instanceof Promise) made.then(decided);
    else decided(made);
  }

  function reconfigure(i: number, { apps, unknownApps }: Reload): void {
    nodes[i]!.reconfigure({ apps, unknownApps });
    for (const app of apps) policies[i]!.set(app.id, app);
  }

  for (const one of steps) {
    if (one.kind === "request") request(one);
    else if (one.kind === "pass") await clock.advance(one.ms);
    else if (one.kind === "store") Object.assign(store, { mode: one.mode, latencyMs: one.latencyMs });
    else for (const i of one.nodes) reconfigure(i, one.reload);
  }
  store.mode = "up";
  await clock.advance(10_000);
  expect({ unanswered, running }).toEqual({ unanswered: 0, running: 0 });
  return { simulation, nodes, spent };
}

async function books(simulation: Simulation, id: string) {
  const { spent, granted, returned } = await simulation.quota.inspect(limitedApp({ id }));
  return { spent, out: granted - returned - spent };
}

async function closeAll(simulation: Simulation, nodes: SimulatedNode[]): Promise<void> {
  for (const node of nodes) await simulation.during(node.limiter.close());
}

describe("reloads during requests and store failures", () => {
  it("the store has charged exactly the cost of the admitted requests, and no lease holds tokens", async () => {
    await fc.assert(
      fc.asyncProperty(reload, fc.array(step, { minLength: 5, maxLength: 60 }), async (first, steps) => {
        const { simulation, nodes, spent } = await run(first, steps);
        await closeAll(simulation, nodes);
        for (const id of IDS) expect(await books(simulation, id), id).toEqual({ spent: spent.get(id), out: 0 });
      }),
      { numRuns: 300, seed: 4 },
    );
  });

  it("an app that was removed from all nodes is charged in full before they close", async () => {
    await fc.assert(
      fc.asyncProperty(reload, fc.array(step, { minLength: 5, maxLength: 40 }), async (first, steps) => {
        const { simulation, nodes, spent } = await run(first, steps);
        for (const node of nodes) node.reconfigure({ apps: [limitedApp({ id: "else" })], unknownApps: "reject" });
        await simulation.clock.advance(2_000);
        for (const id of IDS) expect(await books(simulation, id), id).toEqual({ spent: spent.get(id), out: 0 });
        await closeAll(simulation, nodes);
      }),
      { numRuns: 150, seed: 7 },
    );
  });
});
