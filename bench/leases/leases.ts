/** What leases cost and guarantee: worst windows, utilisation, ledger entries, many tenants, and tokens held by another worker. */
import { atLeast, atMost, below, noBudget, type Result, result } from "../results.js";
import { measurePoint } from "../support/fleet.js";
import { manyTenants } from "./gateway-tenants.js";
import { gatewayWindows } from "./gateway-windows.js";
import { flexibleWindow, ownWindow, utilisation } from "./library-nodes.js";
import { twoWorkers } from "./two-workers.js";

const LIMITS = [
  { rate: 400, burst: 400 },
  { rate: 1_000, burst: 1_000 },
  { rate: 50, burst: 10 },
];
const WINDOW = "worst window: admitted ÷ (burst + rate × time)";

export async function leases(): Promise<Result[]> {
  return [...(await windows()), ...(await used()), ...(await entries()), ...(await tenants()), await workers()];
}

async function windows(): Promise<Result[]> {
  const results: Result[] = [];
  for (const limit of LIMITS) {
    const name = `leases-window-${limit.rate}-${limit.burst}`;
    results.push(result(name, await ownWindow(limit), `library, ${WINDOW}`, atMost(1)));
  }
  const flexible = await flexibleWindow(LIMITS[0]!);
  results.push(result("leases-window-flexible", flexible, "the same with rate-limiter-flexible, 400/400", noBudget));
  const gateways = await gatewayWindows(LIMITS);
  for (const [i, { rate, burst }] of LIMITS.entries()) {
    results.push(result(`leases-window-gateways-${rate}-${burst}`, gateways[i]!, `gateways, ${WINDOW}`, atMost(1)));
  }
  return results;
}

async function used(): Promise<Result[]> {
  const [fast, slow] = await Promise.all([
    utilisation({ rate: 1_000, burst: 1_000 }, 10),
    utilisation({ rate: 20, burst: 20 }, 20),
  ]);
  return [
    result("leases-utilisation-1000", fast, "admitted ÷ rate × time, load 3 × rate, 80/15/5", atLeast(0.98)),
    result("leases-utilisation-20", slow, "admitted ÷ rate × time, load 3 × rate, 80/15/5", atLeast(0.95)),
  ];
}

async function entries(): Promise<Result[]> {
  const ample = { guaranteed: 100_000, burst: 1_000_000 };
  // An app with few requests is reported every 30 s: one such time to warm up, one to count.
  const times = { warmUpSeconds: 32, seconds: 30 };
  const few = { nodes: 10, apps: 100, perPair: 2, limits: ample, ...times };
  const [small, large, tight] = await Promise.all([
    measurePoint({ nodes: 10, apps: 1_000, perPair: 0.5, limits: ample, ...times }),
    measurePoint(few),
    measurePoint({ ...few, limits: { guaranteed: 100, burst: 200 } }),
  ]);
  return [
    result("leases-10x1000x0.5", small.entriesPerRequest, "ledger entries per request", atMost(0.1)),
    result("leases-10x1000x0.5-redis", small.redisUsPerRequest, "µs of Redis CPU per request", atMost(5)),
    result("leases-10x1000x0.5-local", small.localRatio, "decided locally", atLeast(0.95)),
    result("leases-10x100x2", large.entriesPerRequest, "ledger entries per request", atMost(0.05)),
    result("leases-10x100x2-burst-200", tight.entriesPerRequest, "ledger entries per request", atMost(0.25)),
    result("leases-10x100x2-burst-200-refused", tight.refused, "requests refused at a fifth of the rate", atMost(0)),
  ];
}

async function tenants(): Promise<Result[]> {
  const figures = await manyTenants();
  return [
    result("leases-tenants", figures.throughput, "10,000 tenants in turn ÷ one tenant, requests/s", atLeast(0.8)),
    result("leases-tenants-per-second", figures.perSecond, "requests/s with 10,000 tenants", noBudget),
    result("leases-tenants-local", figures.localRatio, "decided locally", atLeast(0.95)),
    result("leases-tenants-mean", figures.meanMs, "ms, mean decision time", noBudget),
    result("leases-tenants-p99", figures.p99Ms, "ms, P99 decision time", below(10)),
    result("leases-tenants-worker-memory", figures.workerMb, "MB above one tenant, worker, after GC", atMost(40)),
    result("leases-tenants-primary-memory", figures.primaryMb, "MB above one tenant, primary, after GC", atMost(40)),
    result("leases-tenants-worker-resident", figures.workerResidentMb, "MB above one tenant, with garbage", noBudget),
  ];
}

async function workers(): Promise<Result> {
  const { early, requests } = await twoWorkers();
  return result("leases-two-workers", early, `of ${requests} requests refused while a worker held tokens`, atMost(0));
}
