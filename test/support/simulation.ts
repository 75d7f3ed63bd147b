/** N limiters on one embedded store with a driven clock, scripted load and faults, in one process. */

import type { AppLimits } from "../../src/core/app-limits.js";
import { standardProfile } from "../../src/core/cost.js";
import {
  createLimiter,
  type Decision,
  type Limiter,
  type LimiterOptions,
  type LimiterSettings,
  type ShardTarget,
  type SyncTarget,
} from "../../src/limiter/limiter.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../src/store/errors.js";
import { createSimulatedClock, type SimulatedClock } from "./simulated-clock.js";
import { type ClusterLimits, createQuota, type ShardQuota, type SplitQuota } from "./split-quota.js";

export const START_MS = 1_800_000_000_000;

export function limitedApp(app: Partial<AppLimits> & { id: string }): AppLimits {
  return {
    guaranteed: 1000,
    burst: 1000,
    priority: 1,
    borrow: false,
    profile: standardProfile,
    onStoreFailure: "closed" as const,
    dryRun: false,
    ...app,
  };
}

export interface SimulatedNode {
  name: string;
  limiter: Limiter;
  /** Every decision and its time. */
  decisions: { at: number; decision: Decision }[];
  admitted(from?: number, to?: number): number;
  /** Like SIGKILL: sends and receives nothing from now on. */
  kill(): void;
  /** Changes these settings only. */
  reconfigure(changed: Changed): void;
}

export type Changed = Partial<Omit<LimiterSettings, "target">> & { cluster?: Partial<ClusterLimits> };

export interface Simulation {
  clock: SimulatedClock;
  quota: SplitQuota;
  nodes: SimulatedNode[];
  /** The network to the store. `mute`: calls are executed, but the replies are lost. `entries`: apps in all messages. */
  store: { mode: "up" | "refusing" | "hanging" | "mute"; latencyMs: number; calls: number; entries: number };
  addNode(name: string, options?: Partial<LimiterOptions>): SimulatedNode;
  /** Sends requests of `app` at an even rate until `until` (simulated milliseconds). */
  load(node: SimulatedNode, app: string, perSecond: number, until: number): void;
  /** Advances the time until the promise is resolved. */
  during<T>(promise: Promise<T> | T): Promise<T>;
}

export function createSimulation(
  apps: AppLimits[],
  cluster: Partial<ClusterLimits> = {},
  options: Partial<LimiterOptions> = {},
): Simulation {
  const clock = createSimulatedClock();
  const embedded = createEmbeddedStore({ clock: () => (START_MS + clock.now()) * 1000 });
  const policy = { id: "sim", capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 3000, ...cluster };
  const quota = createQuota(embedded, policy);
  let ticking = quota;
  const store: Simulation["store"] = { mode: "up", latencyMs: 1, calls: 0, entries: 0 };
  const nodes: SimulatedNode[] = [];

  function overNetwork(alive: () => boolean, { shards }: Pick<SplitQuota, "shards">): SyncTarget {
    return { shards: shards.map((shard) => shardOverNetwork(alive, shard)) };
  }

  /** A shard behind a network, with half of the latency in each direction. */
  function shardOverNetwork(alive: () => boolean, quota: ShardQuota): ShardTarget {
    const pause = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
    async function travel<T>(call: () => Promise<T>, deadlineMs: number): Promise<T> {
      store.calls++;
      const timeout = new Promise<never>((_, reject) => {
        clock.after(deadlineMs, () => reject(new StoreError("timeout", "simulated")));
      });
      async function there(): Promise<T> {
        if (store.mode === "refusing") throw new StoreError("unavailable", "simulated");
        if (store.mode === "hanging" || !alive()) return new Promise<never>(() => {});
        await pause(store.latencyMs / 2);
        const answer = await call();
        if (store.mode === "mute") return new Promise<never>(() => {});
        await pause(store.latencyMs / 2);
        return answer;
      }
      return Promise.race([there(), timeout]);
    }
    return {
      grant: (sender, requests, how) => {
        store.entries += requests.length;
        return travel(() => quota.grant(sender, requests), how?.deadlineMs ?? 1000);
      },
      report: (sender, requests, leave, how) =>
        travel(() => quota.report(sender, requests, leave), how?.deadlineMs ?? 1000),
      heartbeat: (sender) => travel(() => quota.heartbeat(sender), 1000),
      inspect: (app) => travel(() => quota.inspect(app), 1000),
      credit: (app, amount, operation) => travel(() => quota.credit(app, amount, operation), 1000),
      onRecall: (recalled) =>
        quota.onRecall((app) => {
          clock.after(store.latencyMs / 2, () => {
            if (alive() && store.mode === "up") recalled(app);
          });
        }),
    };
  }

  function addNode(name: string, own: Partial<LimiterOptions> = {}): SimulatedNode {
    let alive = true;
    const target = overNetwork(() => alive, quota);
    const given: LimiterOptions = { node: name, target, apps, clock, ...options, ...own };
    const limiter = createLimiter(given);
    let settings: LimiterSettings = given;
    const node: SimulatedNode = {
      name,
      limiter,
      decisions: [],
      admitted: (from = 0, to = Number.POSITIVE_INFINITY) =>
        node.decisions
          .filter(({ at, decision }) => decision.allowed && at >= from && at < to)
          .reduce((sum, { decision }) => sum + decision.cost, 0),
      kill() {
        alive = false;
      },
      reconfigure({ cluster: changed, ...rest }) {
        if (changed !== undefined) ticking = createQuota(embedded, { ...policy, ...changed });
        settings = { ...settings, ...rest, ...(changed ? { target: overNetwork(() => alive, ticking) } : {}) };
        limiter.reconfigure(settings);
      },
    };
    nodes.push(node);
    return node;
  }

  function load(node: SimulatedNode, app: string, perSecond: number, until: number): void {
    const gap = 1000 / perSecond;
    const arrive = () => {
      if (clock.now() >= until) return;
      clock.after(gap, arrive);
      const made = node.limiter.check(app, "GET", 0);
      const note = (decision: Decision) => node.decisions.push({ at: clock.now(), decision });
      if (made instanceof Promise) made.then(note);
      else note(made);
    };
    clock.after(gap, arrive);
  }

  async function during<T>(promise: Promise<T> | T): Promise<T> {
    let done = false;
    const kept = Promise.resolve(promise).finally(() => {
      done = true;
    });
    while (!done) await clock.advance(1);
    return kept;
  }

  // In production the service does this: it checks for emergencies, which also advances the clock of the nodes.
  const tick = () => {
    if (store.mode === "up" || store.mode === "mute") void ticking.emergencyCheck(1000, false);
    clock.after(250, tick);
  };
  tick();
  return { clock, quota, nodes, store, addNode, load, during };
}
