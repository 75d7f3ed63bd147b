/**
 * Sends requests to a live limiter one by one on a driven clock. `tollgate simulate` must produce the same counts. Only the
 * limiter itself is shared with src/simulate.
 */
import { appLimits, clusterOptions, leaseOptions } from "../../src/config/options/limiter.js";
import type { Config } from "../../src/config/schema.js";
import { createLimiter, type Decision, type Limiter } from "../../src/limiter/limiter.js";
import { createQuota } from "../../src/quota/quota.js";
import type { Clock } from "../../src/shared/clock.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import type { GeneratedRequest } from "./generated-log.js";

export interface LiveCounts {
  admitted: number;
  refused: number;
  codes: Record<string, number>;
  tokens: number;
}

/** Turns of the event loop in which a message, a recall that it causes, and the replies to it are complete. */
const TURNS = 8;

/** A clock with one list of timers. After each timer the event loop completes some turns. */
function createFedHost() {
  let now = 0;
  const timers: { at: number; work: () => void }[] = [];
  const deferred: (() => void)[] = [];
  async function turns(): Promise<void> {
    for (let i = 0; i < TURNS; i++) {
      for (const work of deferred.splice(0)) work();
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }
  const clock: Clock = {
    now: () => now,
    after(ms, work) {
      const timer = { at: now + Math.max(ms, 0), work };
      const place = timers.findLastIndex(({ at }) => at <= timer.at) + 1;
      timers.splice(place, 0, timer);
      return () => {
        if (timers.includes(timer)) timers.splice(timers.indexOf(timer), 1);
      };
    },
  };
  async function goTo(moment: number): Promise<void> {
    await turns();
    while (timers.length > 0 && timers[0]!.at <= moment) {
      const { at, work } = timers.shift()!;
      now = at;
      work();
      await turns();
    }
    now = moment;
  }
  return { ...clock, goTo, defer: (work: () => void) => void deferred.push(work) };
}

export async function feedLiveLimiter(
  config: Config,
  nodes: number,
  requests: Iterable<GeneratedRequest>,
): Promise<Record<string, LiveCounts>> {
  const host = createFedHost();
  let startMs = Number.NaN;
  const store = createEmbeddedStore({ clock: () => Math.floor((startMs + host.now()) * 1000) });
  const quota = createQuota(store, clusterOptions(config));
  const apps = appLimits(config);
  const counts: Record<string, LiveCounts> = {};
  let limiters: Limiter[] = [];
  let running = 0;

  function begin(firstMs: number): void {
    startMs = firstMs;
    limiters = Array.from({ length: nodes }, (_, i) =>
      createLimiter({
        node: `live-${i}`,
        target: quota,
        apps,
        unknownApps: config.unknown_apps,
        clock: host,
        // A message starts when the replies of this turn are applied: recalls do not overtake them.
        defer: host.defer,
        lease: leaseOptions(config),
        timeoutMs: config.lease.timeout_ms,
        failOpenTokens: config.fail_open_tokens,
      }),
    );
    const look = async () => {
      host.after(250, look);
      const { emergency_cooldown_ms, automatic_emergency } = config.cluster;
      const { active } = await quota.emergencyCheck(emergency_cooldown_ms, automatic_emergency);
      for (const limiter of limiters) limiter.setEmergency(active);
    };
    host.after(250, look);
  }

  function decided(
    limiter: Limiter,
    made: Decision,
    { requestBytes, responseBytes, durationMs }: GeneratedRequest,
  ): void {
    counts[made.app] ??= { admitted: 0, refused: 0, codes: {}, tokens: 0 };
    const own = counts[made.app]!;
    if (made.code !== "ok") own.codes[made.code] = (own.codes[made.code] ?? 0) + 1;
    if (!made.allowed) {
      own.refused++;
      return;
    }
    own.admitted++;
    running++;
    const end = () => {
      running--;
      limiter.settle(made, requestBytes, responseBytes);
    };
    if (durationMs > 0) host.after(durationMs, end);
    else end();
  }

  let count = 0;
  for (const request of requests) {
    if (count === 0) begin(request.at);
    await host.goTo(request.at - startMs);
    const limiter = limiters[count++ % nodes]!;
    const made = limiter.check(request.app, request.method, request.requestBytes);
    if (made instanceof Promise) void made.then((later) => decided(limiter, later, request));
    else decided(limiter, made, request);
  }
  await host.goTo(host.now() + config.lease.timeout_ms);
  while (running > 0) await host.goTo(host.now() + 1);
  for (const limiter of limiters) await limiter.close();
  for (const app of apps) {
    const own = counts[app.id];
    if (own !== undefined) own.tokens = (await quota.inspect(app)).spent;
  }
  return counts;
}
