/** One configuration on a simulated clock: the limiters of N nodes on the embedded store. */
import { clusterOptions, coordinatorOptions, limiterOptions } from "../config/options/limiter.js";
import { routePricing } from "../config/options/profiles.js";
import type { Config } from "../config/schema.js";
import { INVALID_IDENTITY } from "../core/codes.js";
import { ANONYMOUS_USER } from "../core/identity.js";
import { isIdentifier } from "../core/platform.js";
import { HEARTBEAT_MS } from "../engine/plan.js";
import type { RequestAttributes } from "../limit-rules/limit-rules.js";
import { createLimiter, type Decision, type Limiter, type SyncTarget } from "../limiter/limiter.js";
import { createQuota } from "../quota/quota.js";
import { createEmbeddedStore } from "../store/embedded/embedded-store.js";
import { createDrivenClock } from "./driven-clock.js";
import type { LoggedRequest } from "./logged-request.js";
import { type AppTally, createTally } from "./tally.js";

export interface WorldOptions {
  /** Its store is not used. */
  config: Config;
  /** Number of nodes, which get the requests in turn. */
  nodes: number;
  /** Time of the first request, in milliseconds since 1970. */
  startMs: number;
}

/** `tokens`: the spend recorded in the store. */
export type AppOutcome = AppTally & { tokens: number };

export type World = ReturnType<typeof createWorld>;

/** The interval at which services check for an emergency. */
const EMERGENCY_CHECK_MS = 250;

export function createWorld({ config, nodes, startMs }: WorldOptions) {
  const { cooldownMs, automaticEmergency } = coordinatorOptions(config);
  const options = limiterOptions(config);
  const hasLimits = config.limits.length > 0;
  const pricing = routePricing(config);
  const { idle_ms, report_interval_ms } = config.lease;
  /** In pauses of more than twice this time, in which nodes return their tokens, the rest is skipped. */
  const restMs = idle_ms + report_interval_ms + 10_000;
  const clock = createDrivenClock();
  const store = createEmbeddedStore({ clock: () => Math.floor((startMs + clock.now()) * 1000) });
  const quota = createQuota(store, clusterOptions(config));
  const tally = createTally(startMs);
  /** Store calls without a reply, and work deferred to the end of the turn. */
  let calls = 0;
  let deferred: (() => void)[] = [];
  let running = 0;
  let decided = 0;
  let seen = 0;
  let turn = 0;
  let emergency = false;
  const target: SyncTarget = {
    shards: quota.shards.map((shard) => ({
      grant: (sender, requests) => tracked(shard.grant(sender, requests)),
      report: (sender, requests, leave) => tracked(shard.report(sender, requests, leave)),
      heartbeat: (sender) => tracked(shard.heartbeat(sender)),
      onRecall: shard.onRecall,
    })),
  };
  const limiters = Array.from({ length: nodes }, (_, i) =>
    createLimiter({ ...options, node: `node-${i + 1}`, target, clock, defer: (work) => deferred.push(work) }),
  );
  clock.after(EMERGENCY_CHECK_MS, checkEmergency);

  function tracked<T>(call: Promise<T>): Promise<T> {
    calls++;
    return call.finally(() => {
      calls--;
    });
  }

  /** Like the coordinator of a service. Skips the check if nothing was decided since the last one. */
  function checkEmergency(): void {
    clock.after(EMERGENCY_CHECK_MS, checkEmergency);
    if (decided === seen && !emergency) return;
    seen = decided;
    void tracked(quota.emergencyCheck(cooldownMs, automaticEmergency)).then(({ active }) => {
      emergency = active;
      for (const limiter of limiters) limiter.setEmergency(active);
    });
  }

  const isBusy = () => calls > 0 || deferred.length > 0;

  /** Runs until nothing more can happen at the current time. All promises resolve within a turn of the event loop. */
  async function untilIdle(): Promise<void> {
    while (isBusy()) {
      const work = deferred;
      deferred = [];
      for (const one of work) one();
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** Advances the clock until something has to be awaited; true if `until` was reached. */
  function advance(until: number): boolean {
    while (!isBusy() && clock.nextAt() <= until) clock.runNext();
    if (isBusy()) return false;
    clock.moveTo(until);
    return true;
  }

  async function advanceTo(until: number): Promise<void> {
    while (!advance(until)) await untilIdle();
  }

  function isIdle(): boolean {
    if (running > 0 || emergency) return false;
    return limiters.every((limiter) => limiter.balances().every(({ balance }) => balance === 0));
  }

  /** Skips a long pause, in which only heartbeats happen. Timers keep their phase. */
  async function skip(until: number): Promise<void> {
    await advanceTo(clock.now() + restMs);
    if (!isIdle()) return;
    const step = leastCommonMultiple(config.lease.sync_interval_ms, HEARTBEAT_MS);
    // The last messages before the request keep their phase as well.
    const skipped = (Math.floor((until - clock.now()) / step) - 1) * step;
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
    const profile = request.path === undefined ? undefined : pricing("", request.path);
    const attributes = hasLimits || profile !== undefined ? { ...attributesOf(request), profile } : undefined;
    const made = limiter.check(request.app, request.method, request.requestBytes, attributes);
    if (made instanceof Promise) {
      running++;
      void made.then((later) => {
        running--;
        conclude(limiter, request, later);
      });
    } else {
      conclude(limiter, request, made);
    }
    return isBusy() ? untilIdle() : undefined;
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
    if (at - clock.now() > 2 * restMs) await skip(at);
    await advanceTo(at);
    await decide(request);
  }

  return {
    tally,
    /** Advances the clock to the request and decides. Returns a promise only if it has to wait. */
    submit(request: LoggedRequest): Promise<void> | undefined {
      const at = request.at - startMs;
      if (at - clock.now() <= 2 * restMs && advance(at)) return decide(request);
      return submitLater(request, at);
    },
    /** Completes waiting and running requests and returns all tokens. */
    async finish(): Promise<AppOutcome[]> {
      await untilIdle();
      // Waiting requests end within the timeout; after that only admitted requests are running.
      await advanceTo(clock.now() + config.lease.timeout_ms);
      while (running > 0) await advanceTo(clock.nextAt());
      for (const limiter of limiters) {
        const closed = limiter.close();
        await untilIdle();
        await closed;
      }
      const limits = new Map(options.apps.map((app) => [app.id, app]));
      return Promise.all(
        tally.apps().map(async (one) => {
          const app = limits.get(one.app);
          return { ...one, tokens: app === undefined ? 0 : (await quota.inspect(app)).spent };
        }),
      );
    },
  };
}

/** Logs have no headers: limits that depend on them see requests without them. */
export function attributesOf({ app, method, path = "", user = "", address = "" }: LoggedRequest): RequestAttributes {
  return {
    app,
    user: user === "" ? ANONYMOUS_USER : user,
    method,
    host: "",
    path: path === "" ? "/" : path,
    // Requests without an address count as one client.
    address: address === "" || address === "-" ? "0.0.0.0" : address,
    headerCount: () => 0,
    header: () => "",
  };
}

function leastCommonMultiple(a: number, b: number): number {
  const divisor = (x: number, y: number): number => (y === 0 ? x : divisor(y, x % y));
  return (a / divisor(a, b)) * b;
}
