/** Measures how 20 routes with connections are spread over the primaries of a real Redis Cluster: CPU of each primary. */
import type { SlotHold } from "../src/slots/connection-admission.js";
import { createSlotKeeper, newProxyId } from "../src/slots/slot-keeper.js";
import { createRouteSlots } from "../src/slots/slots.js";
import { createRedisStore } from "../src/store/redis/redis-store.js";
import { type RedisCluster, startRedisCluster } from "../test/support/redis-cluster.js";
import { atMost, noBudget, type Result, result } from "./results.js";
import { cpuNs } from "./support/cpu-time.js";
import { pace } from "./support/pace.js";

const ROUTES = Array.from({ length: 20 }, (_, i) => `chat.example/room-${i}/`);
const PROXIES = 4;
/** On each route and proxy. */
const OPEN = 25;
const CONNECTS_PER_SECOND = 600;
const SECONDS = 8;
const limits = {
  ...{ maxPerPod: 10_000, maxTotal: 100_000, maxPerApp: 0, ratePerSecond: 100_000, burst: 100_000, leaseMs: 3_000 },
  onStoreFailure: "closed" as const,
};

export async function slotPrimaries(): Promise<Result[]> {
  const results: Result[] = [];
  for (const primaries of [3, 6]) {
    const cluster = await startRedisCluster({ primaries, nodeTimeoutMs: 15_000 });
    try {
      for (const placed of [true, false]) {
        const { ratio, perPrimary } = await measure(cluster, placed);
        const name = `slot-primaries-${primaries}-${placed ? "placed" : "hashed"}`;
        console.error(`  ${name}: CPU-ms of the primaries: ${perPrimary.map((ms) => Math.round(ms)).join(", ")}`);
        results.push(result(name, ratio, "CPU of busiest primary ÷ mean", placed ? atMost(1.3) : noBudget));
      }
    } finally {
      await cluster.stop();
    }
  }
  return results;
}

async function measure(cluster: RedisCluster, placed: boolean) {
  const primaries = await cluster.primaries();
  const cpu = () => primaries.map(({ pid }) => cpuNs([pid]) / 1e6);
  const placementOf = (route: string) => (placed ? ROUTES.indexOf(route) : undefined);
  const idle = await spent(cpu, () => new Promise((resolve) => setTimeout(resolve, SECONDS * 1000)));
  const keepers = Array.from({ length: PROXIES }, (_, i) => startKeeper(cluster.url, `proxy-${i}`, placementOf));
  for (const { connect } of keepers) {
    for (const route of ROUTES) await Promise.all(Array.from({ length: OPEN }, () => connect(route)));
  }
  let turn = 0;
  const churn = () => {
    const { connect } = keepers[turn % PROXIES]!;
    const route = ROUTES[Math.floor(turn / PROXIES) % ROUTES.length]!;
    turn++;
    void connect(route).then((slot) => slot.release());
  };
  const busy = await spent(cpu, () => pace({ perSecond: CONNECTS_PER_SECOND, seconds: SECONDS }, churn));
  for (const { stop } of keepers) await stop();
  const perPrimary = busy.map((ms, i) => ms - idle[i]!);
  const mean = perPrimary.reduce((sum, ms) => sum + ms, 0) / perPrimary.length;
  return { ratio: Math.max(...perPrimary) / mean, perPrimary };
}

async function spent(cpu: () => number[], work: () => Promise<unknown>): Promise<number[]> {
  const before = cpu();
  await work();
  return cpu().map((after, i) => after - before[i]!);
}

function startKeeper(url: string, name: string, placementOf: (route: string) => number | undefined) {
  const store = createRedisStore({ url, deadlineMs: 5_000 });
  const keeper = createSlotKeeper({
    slots: createRouteSlots(store, "bench", placementOf),
    proxy: newProxyId(name),
    routes: new Map(ROUTES.map((route) => [route, limits])),
    timeoutMs: 5_000,
    liveProxies: () => PROXIES,
  });
  return {
    async connect(route: string): Promise<SlotHold> {
      const verdict = await keeper.admit({ app: "chat", route, pods: ["10.0.0.1:80", "10.0.0.2:80"] });
      if (!verdict.allowed) throw new Error(`refused: ${verdict.body}`);
      return verdict.slot;
    },
    async stop(): Promise<void> {
      await keeper.close();
      await store.close();
    },
  };
}
