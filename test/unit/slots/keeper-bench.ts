/** Slot keepers on one embedded store, with a simulated clock, a network that fails on demand, and processes that can be paused. */

import type { Clock } from "../../../src/shared/clock.js";
import type { ConnectionVerdict, SlotHold } from "../../../src/slots/connection-admission.js";
import type { RouteLimits } from "../../../src/slots/route-limits.js";
import { createSlotKeeper, type SlotKeeper } from "../../../src/slots/slot-keeper.js";
import type { SlotKeeperOptions } from "../../../src/slots/slot-keeper-options.js";
import { createRouteSlots, type RouteSlots, type Slots } from "../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import type { RunOptions } from "../../../src/store/store.js";
import { createSimulatedClock, type SimulatedClock } from "../../support/simulated-clock.js";
import { createStandingClock } from "./standing-clock.js";

export const ROUTE = "/ws/";
export const LEASE_MS = 30_000;
const START_MS = 1_800_000_000_000;

export function limits(more: Partial<RouteLimits> = {}): RouteLimits {
  return {
    ...{ maxPerPod: 2, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: LEASE_MS },
    onStoreFailure: "closed",
    ...more,
  };
}

/** "deaf": calls are carried out, but replies are lost. "late": calls are carried out only after the network works again. */
export type WayMode = "up" | "refusing" | "hanging" | "deaf" | "late";

export interface Way {
  mode: WayMode;
  latencyMs: number;
  /** Routes whose calls are not answered. */
  hanging?: Set<string>;
  calls: Record<keyof Slots, number>;
}

export interface Process {
  name: string;
  keeper: SlotKeeper;
  way: Way;
  /** Connections that were admitted and have not ended. */
  open: Map<string, { route: string; pod: string; slot: SlotHold }>;
  /** Connections that were closed because they lost their slots. */
  closed: string[];
  /** Leases lost and reclaimed, and refusals by reason. */
  seen: { lost: number; reclaimed: number; refused: Record<string, number> };
  /** Asks for a connection. Resolves as simulated time passes. */
  connect(pods?: string[], app?: string, route?: string): Promise<ConnectionVerdict>;
  /** The same, and advances the time. */
  connectNow(pods?: string[], app?: string, route?: string): Promise<ConnectionVerdict>;
  end(connection: string): void;
  /** Like SIGSTOP and SIGCONT: time passes, but no timer fires. */
  pause(): void;
  resume(): Promise<void>;
  /** Like SIGKILL. */
  kill(): void;
}

export interface KeeperBench {
  clock: SimulatedClock;
  /** The store itself, without the network. */
  slots(route?: string): Slots;
  count(pod: string, route?: string): Promise<number>;
  total(route?: string): Promise<number>;
  /** The store loses all its data. */
  wipe(): void;
  /** Connections of the app `trial` are on a dry run. */
  start(name: string, own?: Partial<SlotKeeperOptions>): Process;
  during<T>(promise: Promise<T>): Promise<T>;
}

export function createKeeperBench(route: RouteLimits = limits()): KeeperBench {
  const clock = createSimulatedClock();
  const newStore = () => createEmbeddedStore({ clock: () => (START_MS + clock.now()) * 1000 });
  const newSlots = () => createRouteSlots(newStore(), "c1");
  let routeSlots = newSlots();
  const processes: Process[] = [];

  async function during<T>(promise: Promise<T>): Promise<T> {
    let done = false;
    const kept = promise.finally(() => {
      done = true;
    });
    kept.catch(() => undefined);
    while (!done) await clock.advance(1);
    return kept;
  }

  function start(name: string, own: Partial<SlotKeeperOptions> = {}): Process {
    const standing = createStandingClock(clock);
    const way: Way = { mode: "up", latencyMs: 1, calls: { acquire: 0, renew: 0, release: 0, counts: 0 } };
    const seen: Process["seen"] = { lost: 0, reclaimed: 0, refused: {} };
    const keeper = createSlotKeeper({
      slots: overNetwork(() => routeSlots, way, standing),
      proxy: name,
      routes: new Map([[ROUTE, route]]),
      timeoutMs: 1_000,
      liveProxies: () => processes.length,
      clock: standing,
      random: () => 0.5,
      observer: {
        lost(count) {
          seen.lost += count;
        },
        reclaimed() {
          seen.reclaimed++;
        },
        decided({ allowed, code }) {
          if (!allowed) seen.refused[code] = (seen.refused[code] ?? 0) + 1;
        },
      },
      ...own,
    });
    const open: Process["open"] = new Map();
    const started: Process = {
      ...{ name, keeper, way, open, closed: [], seen },
      async connect(pods = ["pod-1"], app = "chat", on = ROUTE) {
        const verdict = await keeper.admit({ app, route: on, pods, dryRun: app === "trial" });
        if (verdict.allowed) {
          const { slot, pod } = verdict;
          open.set(slot.connection, { route: on, pod, slot });
          slot.onLost(() => {
            open.delete(slot.connection);
            started.closed.push(slot.connection);
            slot.release();
          });
        }
        return verdict;
      },
      connectNow: (...asked) => during(started.connect(...asked)),
      end(connection) {
        open.get(connection)?.slot.release();
        open.delete(connection);
      },
      pause: standing.pause,
      resume: standing.resume,
      kill: standing.pause,
    };
    processes.push(started);
    return started;
  }

  return {
    clock,
    slots: (of = ROUTE) => routeSlots.of(of),
    count: async (pod, of = ROUTE) => (await routeSlots.of(of).counts([pod], LEASE_MS)).perPod.get(pod) ?? 0,
    total: async (of = ROUTE) => (await routeSlots.of(of).counts([], LEASE_MS)).total,
    wipe() {
      routeSlots = newSlots();
    },
    start,
    during,
  };
}

/** Half of the latency before the call, half after it. A paused process receives no replies. */
export function overNetwork(target: () => RouteSlots, way: Way, clock: Clock): SlotKeeperOptions["slots"] {
  const pause = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  async function travel<T>(
    [route, name]: [string, keyof Slots],
    call: (slots: Slots) => Promise<T>,
    options?: RunOptions,
  ): Promise<T> {
    way.calls[name]++;
    const timeout = new Promise<never>((_, reject) => {
      clock.after(options?.deadlineMs ?? 1_000, () => reject(new StoreError("timeout", "simulated")));
    });
    async function there(): Promise<T> {
      if (way.mode === "refusing") throw new StoreError("unavailable", "simulated");
      if (way.mode === "hanging" || way.hanging?.has(route)) return new Promise<never>(() => {});
      while (way.mode === "late") await pause(10);
      await pause(way.latencyMs / 2);
      const answer = await call(target().of(route));
      if (way.mode === "deaf") return new Promise<never>(() => {});
      await pause(way.latencyMs / 2);
      return answer;
    }
    const answered = there();
    answered.catch(() => undefined);
    timeout.catch(() => undefined);
    return Promise.race([answered, timeout]);
  }
  return {
    tagOf: (route) => target().tagOf(route),
    of: (route) => ({
      acquire: (request, own, options) => travel([route, "acquire"], (slots) => slots.acquire(request, own), options),
      renew: (proxy, leaseMs, held, options) =>
        travel([route, "renew"], (slots) => slots.renew(proxy, leaseMs, held), options),
      release: (proxy, leaseMs, held, options) =>
        travel([route, "release"], (slots) => slots.release(proxy, leaseMs, held), options),
    }),
  };
}
