/**
 * Upgrades a system of release 0.2.0 to the current tree step by step, under load, in the documented order: both services, then
 * both nginx. So old planes sync with services of both versions, and both function libraries work on the same keys.
 */
import { expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import type { AppRules, Exchange, History, Ledger } from "../../soak/history.js";
import { judge } from "../../soak/judge.js";
import { createQuota } from "../../src/quota/quota.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { worstWindow } from "../scenarios/leases.js";
import { startBackend } from "../support/http-backend.js";
import { buildRelease, missingRelease, RELEASE_0_2_0 } from "../support/release-build.js";
import { startRotatingLoad } from "../support/rotating-load.js";
import { startSocketLoad } from "../support/socket-load.js";
import { type SocketPod, startSocketPod } from "../support/socket-pods.js";
import { askAdmin, libraryOf, startUpgradeWorld, type UpgradeWorld, type Version } from "../support/upgrade-world.js";
import { waitFor } from "../support/wait-for.js";

const CLUSTER = { id: "upgrade", capacity: 20_000, rate: 10_000, nodeTtlMs: 60_000 };
const MAX_PER_POD = 3;
const BUILD_MS = 900_000;

/** `full` and the user of `keyed` are offered more than their limit, `ample` a tenth of it. */
const rules: Record<string, AppRules> = {
  ample: { rate: 400, burst: 800, onStoreFailure: "local" },
  full: { rate: 20, burst: 20, onStoreFailure: "open" },
  keyed: { rate: 400, burst: 800, onStoreFailure: "local" },
};
const perUser: AppRules = { rate: 10, burst: 20, onStoreFailure: "open" };
const loads = [
  { app: "ample", path: "/", headers: {}, perSecond: 40 },
  { app: "full", path: "/", headers: {}, perSecond: 100 },
  { app: "keyed", path: "/keyed", headers: { "x-user-id": "ann" }, perSecond: 30 },
];

/**
 * Without the store, `full` and the limit admit nothing: their windows hold in any case, and requests that a version could not
 * decide are seen. The timeout is long, because a late reply on a busy machine is no failure of the upgrade.
 */
function configuration(backend: string, pods: SocketPod[]): string {
  const app = ([name, { rate, burst, onStoreFailure }]: [string, AppRules]) =>
    `  ${name}: { guaranteed: ${rate}, burst: ${burst}, on_store_failure: ${onStoreFailure}, fail_open_tokens: 0, profile: { based_on: iops, bandwidth: 0 } }`;
  return `log: { level: warn }
cluster: { id: ${CLUSTER.id}, capacity: ${CLUSTER.capacity}, rate: ${CLUSTER.rate}, node_ttl_ms: ${CLUSTER.nodeTtlMs} }
timeouts: { shutdown_ms: 5000 }
lease: { timeout_ms: 20000 }
request_limits: { requests_per_client: 0 }
fail_open_tokens: 0
apps:
${Object.entries(rules).map(app).join("\n")}
  sockets: { guaranteed: 1000, burst: 2000 }
limits:
  - { name: per-user, key: [user], rate: ${perUser.rate}/s, burst: ${perUser.burst}, on_store_failure: open, match: { path: [/keyed] } }
upstreams:
  backend: { targets: ["${backend}"] }
  pods: { targets: [${pods.map(({ address }) => `"${address}"`).join(", ")}] }
routes:
  - { path: /, upstream: backend }
  - { path: /ws/, upstream: pods, connections: { max_per_pod: ${MAX_PER_POD}, max_total: 0, rate_per_second: 0, lease_s: 10 } }
`;
}

const missing = missingRelease(RELEASE_0_2_0);
if (missing === undefined) {
  it("an upgrade from 0.2.0 under load fails no request and exceeds no limit", upgrade, BUILD_MS);
} else {
  it(`an upgrade from 0.2.0 is not tested: ${missing}`, () => console.warn(`upgrade.test.ts: ${missing}`));
}

async function upgrade(): Promise<void> {
  const [old, current]: Version[] = [{ folder: buildRelease(RELEASE_0_2_0) }, { folder: fromRoot(".") }];
  // A response that takes a while, so that requests are under way when a service is told to end.
  const backend = await startBackend((_, response) => void setTimeout(() => response.end("ok"), 30));
  let mostOnPod = 0;
  const count = ({ live }: SocketPod) => {
    mostOnPod = Math.max(mostOnPod, live.size);
  };
  const pods = [await startSocketPod(count), await startSocketPod(count)];
  const world = await startUpgradeWorld({ version: old!, yaml: configuration(backend.target, pods) });
  const startedAt = performance.now();
  const now = () => performance.now() - startedAt;
  const load = startRotatingLoad(loads, now);
  for (const { target } of [...world.services, ...world.proxies]) load.join(target);
  const sockets = startSocketLoad({ urls: () => load.targets().map(({ url }) => `${url}/ws/`), clients: 10 });
  const phases: { from: number; phase: string }[] = [];
  const phaseAt = (at: number) => phases.findLast(({ from }) => from <= at)?.phase ?? "start";
  try {
    await loaded("0.2.0 everywhere");
    for (const [i, service] of world.services.entries()) {
      const left = load.leave(service.target);
      await service.end();
      await left;
      await service.start(current!);
      load.join(service.target);
      await loaded(`${i + 1} of 2 services are new`);
      expect(await libraries(world)).toEqual(expect.arrayContaining([libraryOf(current!), libraryOf(old!)]));
    }
    for (const [i, nginx] of world.proxies.entries()) {
      await nginx.upgrade(current!);
      await loaded(`${i + 1} of 2 nginx are new`);
    }
    await sockets.stop();
    await load.stop();
    await judgeAll();
  } finally {
    await sockets.stop();
    await load.stop();
    await world.stop();
    await Promise.all([backend.stop(), ...pods.map((pod) => pod.stop())]);
  }

  /** Waits until every proxy has admitted requests of every app since now, and refused some above the limits. */
  async function loaded(phase: string): Promise<void> {
    phases.push({ from: now(), phase });
    const begin = load.exchanges.length;
    const opened = sockets.opened();
    await waitFor(
      `enough load: ${phase}`,
      () => {
        const since = load.exchanges.slice(begin);
        const has = (app: string, plane: string, status: number) =>
          since.some((one) => one.app === app && one.plane === plane && one.status === status);
        // Long enough for two versions that do not see each other's spending to exceed the limit by half.
        const count = since.filter(({ app }) => app === "full").length;
        const isEverywhere = load.targets().every(({ plane }) => loads.every(({ app }) => has(app, plane, 200)));
        const isRefused = load.targets().every(({ plane }) => has("full", plane, 429) && has("keyed", plane, 429));
        return count >= 400 && isEverywhere && isRefused && sockets.opened() > opened + 5;
      },
      { withinMs: 120_000 },
    );
  }

  async function judgeAll(): Promise<void> {
    const { exchanges } = load;
    const failed = exchanges.filter((one) => one.status !== 200 && !isRefusal(one));
    const shown = ({ app, plane, status, reason, from }: Exchange) =>
      `${plane} ${app}: ${status} ${reason} at ${(from / 1_000).toFixed(1)} s, ${phaseAt(from)}`;
    expect(failed.map(shown)).toEqual([]);
    expect(exchanges.filter(({ app, status }) => app === "ample" && status !== 200)).toEqual([]);
    expect(mostOnPod).toBeLessThanOrEqual(MAX_PER_POD);
    expect(sockets.failures()).toEqual([]);

    const durationMs = now();
    const slots = async () => {
      const path = "/admin/ratelimit/connections";
      const reply = await askAdmin<{ pods: { connections: number }[] }>(world.services[0]!.controlUrl, path);
      return reply.pods.reduce((sum, { connections }) => sum + connections, 0);
    };
    await waitFor("all slots to be free", async () => (await slots()) === 0);
    for (const nginx of world.proxies) await nginx.quit();
    for (const service of world.services) await service.end();
    const fullest = (app: string, { rate, burst }: AppRules) => {
      const own = exchanges
        .filter((one) => one.app === app)
        .map((one) => ({ ...one, sentAt: one.from, at: one.to, error: "" }));
      return worstWindow(own, rate, burst);
    };
    expect(fullest("full", rules.full!)).toBeLessThanOrEqual(1);
    expect(fullest("keyed", perUser)).toBeLessThanOrEqual(1);
    const history: History = {
      ...{ durationMs, rules, nodes: 4, failOpenTokens: 0, unreportedTokens: 0 },
      ...{
        maxPerPod: MAX_PER_POD,
        slotLeaseMs: 10_000,
        exchanges,
        faults: [],
        hostile: [],
        socketsOpenedAt: [],
        logs: [],
        buckets: [],
        filesAtStart: {},
        filesAtEnd: {},
      },
      ...{ degradedAt: [], sockets: [], processes: [], slotsAtEnd: 0, ledgers: await readLedgers(world), errors: [] },
    };
    expect(judge(history).findings).toEqual([]);
  }
}

/**
 * On a busy machine the replies to an nginx are late, before, during and after an upgrade. From a mean of 100 ms on, its requests
 * do not wait for the service; `full` and the limit then admit nothing, which is 503. A plane that stays without the store never
 * has enough load. The services' own gateways have a pinned level, and always wait.
 */
function isRefusal({ app, plane, status, reason }: Exchange): boolean {
  if (status === 429) return true;
  return plane.startsWith("nginx") && app !== "ample" && status === 503 && reason === "store_unavailable";
}

async function libraries({ redis }: UpgradeWorld): Promise<string[]> {
  const list = (await redis.command("FUNCTION", "LIST")) as string[][];
  return list.map(([, name]) => name!);
}

/** After all nodes have ended: everything was reported and returned, and the bucket has what is expected. */
async function readLedgers({ redis }: UpgradeWorld): Promise<Ledger[]> {
  const store = createRedisStore(redis.url);
  const quota = createQuota(store, CLUSTER);
  try {
    return await Promise.all(
      Object.entries(rules).map(async ([app, { rate, burst }]): Promise<Ledger> => {
        const limits = { id: app, guaranteed: rate, burst, priority: 2, borrow: false };
        const { tokens, granted, spent, returned } = await quota.inspect(limits);
        const reconciled = await quota.reconcile(limits, {
          tolerance: 0,
          force: false,
          operation: `${app}-at-the-end`,
        });
        expect([app, reconciled?.driftBefore, reconciled?.recoveredTokens]).toEqual([app, 0, 0]);
        return { app, tokens, held: granted - spent - returned, spent };
      }),
    );
  } finally {
    await store.close();
  }
}
