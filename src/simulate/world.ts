/** One configuration at work on a simulated clock: the real limiters of N proxies on the real embedded store. */

import { INVALID_IDENTITY } from "../core/codes.js";
import type { LeaseOptions } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import { isIdentifier } from "../core/platform.js";
import type { Decision } from "../limiter/decision.js";
import { createLimiter, type Limiter } from "../limiter/limiter.js";
import type { SyncTarget } from "../limiter/syncer.js";
import type { ClusterLimits } from "../quota/cluster-limits.js";
import { createQuota } from "../quota/quota.js";
import { createEmbeddedStore } from "../store/embedded/embedded-store.js";
import { createDrivenClock } from "./driven-clock.js";
import type { LoggedRequest } from "./logged-request.js";
import { type AppTally, createTally, type Tally } from "./tally.js";

export interface WorldSettings {
  apps: AppLimits[];
  unknownApps: "default" | "reject";
  cluster: ClusterLimits;
  lease: LeaseOptions;
  timeoutMs: number;
  failOpenTokens: number;
  automaticEmergency: boolean;
  emergencyCooldownMs: number;
}

export interface WorldOptions extends WorldSettings {
  /** Proxies that share the requests, in turn. */
  nodes: number;
  /** Of the first request: milliseconds since 1970. */
  startMs: number;
}

/** What an app came to in the end: `tokens` is what the store's books say was spent. */
export interface AppOutcome extends AppTally {
  tokens: number;
}

export interface World {
  /** Lets time pass until the request arrives, and decides. A promise only where somebody has to be waited for. */
  submit(request: LoggedRequest): Promise<void> | undefined;
  /** Everybody gets an answer, all that runs ends, and all tokens go back. */
  finish(): Promise<AppOutcome[]>;
  tally: Tally;
}

/** Services look as often as this after emergencies. */
const EMERGENCY_CHECK_MS = 250;
/** In a pause that is longer everyone comes to rest first, and then time is skipped. */
const LONG_PAUSE_MS = 20_000;

export function createWorld(options: WorldOptions): World {
  const { startMs, cluster, apps } = options;
  const clock = createDrivenClock();
  const store = createEmbeddedStore({ clock: () => Math.floor((startMs + clock.now()) * 1000) });
  const quota = createQuota(store, cluster);
  const tally = createTally(startMs);
  /** Calls of the store that have not been answered, and work for the end of the turn. */
  let calls = 0;
  let deferred: (() => void)[] = [];
  let running = 0;
  let decided = 0;
  let seen = 0;
  let turn = 0;
  let emergency = false;
  const limiters = Array.from({ length: options.nodes }, (_, i) => newNode(`node-${i + 1}`));
  clock.after(EMERGENCY_CHECK_MS, checkEmergency);

  function newNode(node: string): Limiter {
    const { unknownApps, lease, timeoutMs, failOpenTokens } = options;
    const target: SyncTarget = {
      grant: (sender, requests) => answered(quota.grant(sender, requests)),
      report: (sender, requests, leave) => answered(quota.report(sender, requests, leave)),
      heartbeat: (sender) => answered(quota.heartbeat(sender)),
    };
    return createLimiter({
      ...{ node, target, apps, unknownApps, lease, timeoutMs, failOpenTokens, clock },
      defer: (work) => deferred.push(work),
    });
  }

  function answered<T>(call: Promise<T>): Promise<T> {
    calls++;
    return call.finally(() => {
      calls--;
    });
  }

  /** As the coordinator of a service does. Where nothing was granted since the last look there is nothing to find. */
  function checkEmergency(): void {
    clock.after(EMERGENCY_CHECK_MS, checkEmergency);
    if (decided === seen && !emergency) return;
    seen = decided;
    void answered(quota.emergencyCheck(options.emergencyCooldownMs, options.automaticEmergency)).then(({ active }) => {
      emergency = active;
      for (const limiter of limiters) limiter.setEmergency(active);
    });
  }

  const isBusy = () => calls > 0 || deferred.length > 0;

  /** Until nobody can do anything more at this moment. All promises here are kept by the end of a turn of the loop. */
  async function settled(): Promise<void> {
    while (isBusy()) {
      const work = deferred;
      deferred = [];
      for (const one of work) one();
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** Time passes, as far as nobody has to be waited for: true when it has passed. */
  function passed(until: number): boolean {
    while (!isBusy() && clock.nextAt() <= until) clock.runNext();
    if (isBusy()) return false;
    clock.moveTo(until);
    return true;
  }

  async function pass(until: number): Promise<void> {
    while (!passed(until)) await settled();
  }

  function isAtRest(): boolean {
    if (running > 0 || emergency) return false;
    return limiters.every((limiter) => limiter.balances().every(({ balance }) => balance === 0));
  }

  /** Nothing happens in a long pause but heartbeats; ticks stay where they are within their interval. */
  async function skip(until: number): Promise<void> {
    await pass(clock.now() + LONG_PAUSE_MS / 2);
    if (!isAtRest()) return;
    const step = leastCommonMultiple(options.lease.syncIntervalMs, EMERGENCY_CHECK_MS);
    const skipped = Math.floor((until - clock.now()) / step) * step;
    if (skipped > 0) clock.sleep(skipped);
  }

  function decide(request: LoggedRequest): Promise<void> | undefined {
    decided++;
    if (!isIdentifier(request.app)) {
      tally.count(request.at, { allowed: false, code: INVALID_IDENTITY, app: "" });
      return undefined;
    }
    const limiter = limiters[turn]!;
    turn = turn + 1 === limiters.length ? 0 : turn + 1;
    const made = limiter.check(request.app, request.method, request.requestBytes);
    if (made instanceof Promise) {
      running++;
      void made.then((later) => {
        running--;
        conclude(limiter, request, later);
      });
    } else {
      conclude(limiter, request, made);
    }
    return isBusy() ? settled() : undefined;
  }

  function conclude(limiter: Limiter, { at, requestBytes, responseBytes, durationMs }: LoggedRequest, made: Decision) {
    tally.count(at, made);
    if (!made.allowed) return;
    if (durationMs <= 0) {
      limiter.settle(made, requestBytes, responseBytes);
      return;
    }
    running++;
    clock.after(durationMs, () => {
      running--;
      limiter.settle(made, requestBytes, responseBytes);
    });
  }

  async function submitLater(request: LoggedRequest, at: number): Promise<void> {
    if (at - clock.now() > LONG_PAUSE_MS) await skip(at);
    await pass(at);
    await decide(request);
  }

  return {
    tally,
    submit(request) {
      const at = request.at - startMs;
      if (at - clock.now() <= LONG_PAUSE_MS && passed(at)) return decide(request);
      return submitLater(request, at);
    },
    async finish() {
      await settled();
      // Those who wait are answered within their time; after that only exchanges run.
      await pass(clock.now() + options.timeoutMs);
      while (running > 0) await pass(clock.nextAt());
      for (const limiter of limiters) {
        const closed = limiter.close();
        await settled();
        await closed;
      }
      const policies = new Map(apps.map((app) => [app.id, app]));
      return Promise.all(
        tally.apps().map(async (one) => {
          const policy = policies.get(one.app);
          return { ...one, tokens: policy === undefined ? 0 : (await quota.inspect(policy)).spent };
        }),
      );
    },
  };
}

function leastCommonMultiple(a: number, b: number): number {
  const divisor = (x: number, y: number): number => (y === 0 ? x : divisor(y, x % y));
  return (a / divisor(a, b)) * b;
}
