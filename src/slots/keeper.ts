/** What one gateway process holds: a slot per connection, taken, kept and freed, through pauses and outages of the store. */
import { SLOT_FORGOTTEN, SLOT_SUCCESS, STORE_UNAVAILABLE } from "../core/codes.js";
import { connectionRefusal, connectionRetryAfter } from "../core/refusals.js";
import type { SlotHold, UpgradeArrival, UpgradeVerdict } from "../planes/node/upgrade/admission.js";
import { MAX_BATCH } from "../scripts/common/slots.js";
import { systemClock } from "../shared/clock.js";
import { StoreError } from "../store/errors.js";
import { createDarkPlacement } from "./dark.js";
import { createHeldSlots, type Held } from "./held.js";
import type { ConnectionKeeper, ConnectionStats, KeeperOptions, KeeperSettings } from "./keeper-options.js";
import { leaseOf, type RouteLimits, withOneLease } from "./limits.js";
import { createReleases } from "./releases.js";
import { createRenewal } from "./renewal.js";
import type { SlotAnswer } from "./slots.js";

/** The gateway stops: whoever asks now should ask another one. */
export const DRAINING = "draining";
/** The route has no limits, or none any more. */
export const NO_CONNECTIONS = "no_connections";
/** No pod was offered. */
export const NO_POD = "no_pod";

interface Asked {
  route: string;
  app: string;
  limits: RouteLimits;
  /** Turned, so that of pods with the same load not always the same one is first. */
  pods: string[];
  /** Whoever decides in the end, decides until then. */
  until: number;
}

type Asking =
  | { answer: SlotAnswer; connection: string }
  /** The store did not say. */
  | undefined;

export function createConnectionKeeper(options: KeeperOptions): ConnectionKeeper {
  const { slots, proxy, clock = systemClock, observer = {}, random = Math.random } = options;
  let settings = settled(options);
  let draining = false;
  let lastConnection = 0;
  let turn = 0;
  const numbers = { admitted: 0, acquires: 0, totalMs: 0, longestMs: 0 };
  const refused = new Map<string, number>();
  const held = createHeldSlots();
  const leaseMs = () => leaseOf(settings.routes);
  const timeoutMs = () => settings.timeoutMs;
  const releases = createReleases({
    ...{ slots, proxy, clock, leaseMs, timeoutMs },
    isAway: () => renewal.isAway(),
    failed: (error) => renewal.failed("release", error),
  });
  const renewal = createRenewal({
    ...{ slots, proxy, clock, held, releases, leaseMs, timeoutMs, observer, random },
    limitsOf: (route) => settings.routes.get(route),
    isNeeded: () => settings.routes.size > 0,
  });
  const placeInTheDark = createDarkPlacement({ clock, held, liveProxies: options.liveProxies });

  async function admit({ app, route, pods }: UpgradeArrival): Promise<UpgradeVerdict> {
    const started = clock.now();
    const limits = settings.routes.get(route);
    const refuse = (code: string, retryAfterMs = 0) => {
      refused.set(code, (refused.get(code) ?? 0) + 1);
      tell({ allowed: false, code, pod: "", dark: code === STORE_UNAVAILABLE });
      const retryAfter = connectionRetryAfter(code, retryAfterMs, random());
      const { status, body } = connectionRefusal({ code, app, limits, retryAfter });
      return { allowed: false as const, status, body, headers: { "Retry-After": String(retryAfter) } };
    };
    const tell = (made: { allowed: boolean; code: string; pod: string; dark: boolean }) =>
      observer.decided?.({ ...made, route, app, milliseconds: clock.now() - started });

    if (draining) return refuse(DRAINING);
    if (limits === undefined) return refuse(NO_CONNECTIONS);
    if (pods.length === 0) return refuse(NO_POD);
    const asked: Asked = { app, route, limits, pods: turned(pods), until: started + settings.timeoutMs };
    const asking = await ask(asked);
    if (asking === undefined) {
      const pod = draining ? undefined : placeInTheDark(route, limits, app, asked.pods);
      if (pod === undefined) return refuse(STORE_UNAVAILABLE);
      tell({ allowed: true, code: SLOT_SUCCESS, pod, dark: true });
      return letIn(asked, newConnection(), pod, false);
    }
    const { answer, connection } = asking;
    if (!answer.allowed) return refuse(answer.code, answer.retryAfterMs);
    tell({ allowed: true, code: answer.code, pod: answer.pod, dark: false });
    return letIn(asked, connection, answer.pod, true);
  }

  async function ask(asked: Asked): Promise<Asking> {
    // What is left after waiting is enough for the store to answer: a short deadline would say nothing about it.
    const waitUntil = asked.until - settings.timeoutMs / 2;
    while (await renewal.ready(waitUntil)) {
      const connection = newConnection();
      const answer = await acquire(asked, connection);
      if (answer === undefined) return undefined;
      renewal.learn(answer.memory);
      if (answer.code !== SLOT_FORGOTTEN) return { answer, connection };
      renewal.takeStock();
    }
    return undefined;
  }

  async function acquire({ app, pods, limits, until }: Asked, connection: string): Promise<SlotAnswer | undefined> {
    const sentAt = clock.now();
    numbers.acquires++;
    try {
      const request = { proxy, connection, app, pods, memory: renewal.memory() };
      const answer = await slots.acquire(request, limits, { deadlineMs: Math.max(until - sentAt, 1) });
      numbers.totalMs += clock.now() - sentAt;
      numbers.longestMs = Math.max(numbers.longestMs, clock.now() - sentAt);
      // The process stood still meanwhile: the slot that it was given may be somebody else's by now.
      if (clock.now() - sentAt < limits.leaseMs / 3) return answer;
    } catch (error) {
      renewal.failed("acquire", error);
      if (!(error instanceof StoreError)) throw error;
      if (error.kind === "overloaded") return undefined;
    }
    // It may have been carried out, or be carried out yet, on any of the pods.
    releases.add(...pods.map((pod) => ({ connection, pod, app })));
    return undefined;
  }

  function letIn({ route, app, limits }: Asked, connection: string, pod: string, leased: boolean): UpgradeVerdict {
    const one: Held = {
      ...{ connection, pod, app, route, limits, leased },
      ...{ told: leased, ended: false, lost: false, lostHandler: undefined },
    };
    held.add(one);
    numbers.admitted++;
    return { allowed: true, headers: {}, pod, slot: holdOf(one) };
  }

  function holdOf(one: Held): SlotHold {
    return {
      connection: one.connection,
      release: () => release(one),
      onLost(handler) {
        one.lostHandler = handler;
        if (one.lost) queueMicrotask(handler);
      },
    };
  }

  function release(one: Held): void {
    if (one.ended) return;
    one.ended = true;
    held.remove(one);
    if (one.told) releases.add(one);
  }

  /** At most as many as one call takes. */
  function turned(pods: string[]): string[] {
    const first = turn++ % pods.length;
    return [...pods.slice(first), ...pods.slice(0, first)].slice(0, MAX_BATCH);
  }

  const newConnection = () => (++lastConnection).toString(36);

  function stats(): ConnectionStats {
    const { calls, lost, reclaimed, closed } = renewal.stats();
    const all = held.all();
    const limits = new Map(all.map((one) => [one.pod, (settings.routes.get(one.route) ?? one.limits).maxPerPod]));
    return {
      ...{ proxy, active: all.length, dark: all.filter((one) => !one.leased).length },
      pods: [...held.pods()].map(([pod, active]) => ({ pod, active, limit: limits.get(pod) ?? 0 })),
      ...{ admitted: numbers.admitted, refused: Object.fromEntries(refused) },
      ...{ leasesLost: lost, leasesReclaimed: reclaimed, leasesClosed: closed },
      ...{ releasesWaiting: releases.waiting(), releasesForgotten: releases.forgotten() },
      acquires: { count: numbers.acquires, totalMs: numbers.totalMs, longestMs: numbers.longestMs },
      storeCalls: numbers.acquires + calls + releases.calls(),
      storeAway: renewal.isAway(),
      settled: renewal.isSettled(),
    };
  }

  async function close(): Promise<void> {
    draining = true;
    await renewal.close();
    for (const one of held.all()) release(one);
    releases.close();
    if (renewal.isAway()) return;
    // Where the store fails, the leases run out.
    await releases.flush().catch((error: unknown) => observer.failed?.("release", error));
    releases.close();
  }

  return {
    admit,
    reconfigure(next) {
      const before = leaseMs();
      settings = settled(next);
      // What was renewed for the shorter time does not last until its turn in a longer round.
      if (leaseMs() !== before) renewal.takeStock();
    },
    drain() {
      draining = true;
    },
    close,
    stats,
  };
}

function settled({ routes, timeoutMs }: KeeperSettings): KeeperSettings {
  return { routes: withOneLease(routes), timeoutMs };
}
