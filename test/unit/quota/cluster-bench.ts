/** Coordinators on one embedded store with a simulated clock and injectable faults. */
import type { BucketLimits } from "../../../src/core/app-limits.js";
import { emergencyChannel } from "../../../src/core/keys.js";
import { type CreateCoordinatorOptions, createCoordinator } from "../../../src/quota/coordinator.js";
import type { EmergencyState } from "../../../src/quota/emergency-watch.js";
import type { Round } from "../../../src/quota/reconcile-rounds.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import type { Store } from "../../../src/store/store.js";
import { withLostLedgers } from "../../support/lost-ledgers.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { type ClusterLimits, createQuota } from "../../support/split-quota.js";

const START_MS = 1_800_000_000_000;
const STEP_MS = 25;
export const CLUSTER = "test";

export type Fault = "none" | "refused" | "answer lost" | "dead";

export interface Way {
  /** Injects a fault into all calls, or only into those named by `only`. */
  fault: Fault;
  only?: string | undefined;
  /** Duration of calls with this name. */
  slowMs?: Record<string, number>;
  calls: string[];
}

export function createBench(cluster: Partial<ClusterLimits> = {}) {
  const clock = createSimulatedClock();
  const store = createEmbeddedStore({ clock: () => (START_MS + clock.now()) * 1000 });
  const policy = { id: CLUSTER, capacity: 1000, rate: 0, nodeTtlMs: 3000, ...cluster };
  const published: EmergencyState[] = [];
  void store.subscribe(emergencyChannel(CLUSTER), (message) => published.push(JSON.parse(message)));

  function over(way: Way): Store {
    async function send<T>(what: string, call: () => Promise<T>): Promise<T> {
      way.calls.push(what);
      const slowMs = way.slowMs?.[what] ?? 0;
      if (slowMs > 0) await new Promise<void>((resolve) => void clock.after(slowMs, resolve));
      const fault = way.only === undefined || way.only === what ? way.fault : "none";
      if (fault === "refused") throw new StoreError("unavailable", "simulated");
      if (fault === "dead") return new Promise<never>(() => {});
      const answer = await call();
      if (fault === "answer lost") throw new StoreError("timeout", "simulated");
      return answer;
    }
    return {
      ...store,
      run: (script, keys, args) => send(script, () => store.run(script, keys, args)),
      publish: (channel, message) => send("publish", () => store.publish(channel, message)),
      subscribe: (channel, handler) => send("subscribe", () => store.subscribe(channel, handler)),
    };
  }

  function addCoordinator(
    node: string,
    apps: BucketLimits[] = [],
    options: Partial<CreateCoordinatorOptions> = {},
    fault: Partial<Way> = {},
  ) {
    const way: Way = { fault: "none", calls: [], ...fault };
    const own = over(way);
    const received: EmergencyState[] = [];
    const rounds: Round[] = [];
    const reconciled: string[] = [];
    const failures: string[] = [];
    const coordinator = createCoordinator({
      ...{ quota: createQuota(own, policy), store: own, clusterId: CLUSTER, node, apps: () => apps, clock },
      ...{ cooldownMs: 30_000, reconcileMs: 60_000, automaticEmergency: true, driftTolerance: 0.1 },
      random: randomNumbers(node),
      observer: {
        emergencyChanged: (state) => received.push(state),
        roundEnded: (round) => rounds.push(round),
        reconciled: (app) => reconciled.push(app),
        failed: (doing) => failures.push(doing),
      },
      ...options,
    });
    return { coordinator, way, received, rounds, reconciled, failures };
  }

  /** Advances the time in small steps. */
  async function pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= STEP_MS) {
      await clock.advance(Math.min(left, STEP_MS));
      await new Promise(setImmediate);
    }
  }

  const quota = createQuota(store, policy);
  /** Its grants are missing in every ledger. */
  const losingQuota = createQuota(withLostLedgers(store), policy);
  return { clock, store, quota, losingQuota, published, addCoordinator, pass };
}

/** Advances the time until the promise resolves. */
export async function passUntil<T>(bench: Pick<ReturnType<typeof createBench>, "pass">, work: Promise<T>): Promise<T> {
  let done = false;
  const settled = work.finally(() => {
    done = true;
  });
  settled.catch(() => undefined);
  for (let i = 0; i < 1000 && !done; i++) await bench.pass(STEP_MS);
  return settled;
}

/** A deterministic random number from 0 to 1 that differs between nodes. */
function randomNumbers(node: string): () => number {
  let state = [...node].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7);
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
