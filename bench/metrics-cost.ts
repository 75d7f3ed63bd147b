/** Measures the cost of metrics per decision: with metrics, without them, and without any observer. */
import { standardProfile } from "../src/core/cost.js";
import { ALL_HEADERS } from "../src/core/response-headers.js";
import { createLimiter } from "../src/limiter/limiter.js";
import type { Admission, Arrival } from "../src/planes/node/http/request-admission.js";
import { createRateLimitAdmission } from "../src/planes/node/http/request-admission.js";
import { createQuota } from "../src/quota/quota.js";
import { createDecisionLog } from "../src/service/metrics/decision-log.js";
import { createNodeMetrics } from "../src/service/metrics/node-metrics.js";
import { limiterObserver } from "../src/service/process/gateway.js";
import { createLog } from "../src/service/process/log.js";
import { createEmbeddedStore } from "../src/store/embedded/embedded-store.js";
import { measure, type Side, startSide } from "./gateway.js";
import { atLeast, below, noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";

const ROUNDS = 15;
const DECISIONS = 100_000;
/** Decisions per turn of the event loop. */
const PER_TURN = 100;
const PLENTY = 1e9;
/** Many apps, so that their counters do not all fit into one cache line. */
const APPS = Array.from({ length: 100 }, (_, i) => `app-${i}`);
const GATEWAY_ROUNDS = 7;

interface Admitting {
  admission: Admission;
  close(): Promise<void>;
}

/** A limiter and its admission. Without `metrics` it has no observer. */
function admitting(metrics?: boolean): Admitting {
  const store = createEmbeddedStore();
  const quota = createQuota(store, { id: "bench", capacity: PLENTY, rate: PLENTY, nodeTtlMs: 10_000 });
  const app = { guaranteed: PLENTY, burst: PLENTY, priority: 1, borrow: false, dryRun: false };
  const telemetry =
    metrics === undefined
      ? undefined
      : createNodeMetrics({ node: "bench", enabled: metrics, apps: APPS, limits: [], appLabels: 1_000 });
  const silent = createLog({ level: "silent", node: "bench" });
  const log = createDecisionLog({ log: silent, perSecond: () => 5, slowMs: () => 100 });
  const limiter = createLimiter({
    node: "bench",
    target: quota,
    lease: { reserve: 1_000_000 },
    apps: APPS.map((id) => ({ ...app, id, profile: standardProfile, onStoreFailure: "open" })),
    observer: telemetry === undefined ? undefined : limiterObserver(silent, telemetry, log),
  });
  const admission = createRateLimitAdmission({
    limiter,
    appHeader: "X-App-Id",
    userHeader: "X-User-Id",
    apiKeyHeader: "X-API-Key",
    apiKeys: {},
    rules: { refuseUntrustedHeaders: false, refuseUnknownApps: false },
    forwardIdentity: true,
    headers: ALL_HEADERS,
    isTrustedHop: () => true,
    isConfigured: (id) => id.startsWith("app-"),
  });
  return {
    admission,
    async close() {
      await limiter.close();
      await store.close();
      log.close();
      telemetry?.close();
    },
  };
}

const arrivals: Arrival[] = APPS.map((app) => {
  const named = [app];
  return {
    method: "GET",
    remoteAddress: "127.0.0.1",
    contentLength: 0,
    headerValues: (name) => (name === "x-app-id" ? named : []),
  };
});

/** CPU nanoseconds of this process per request that is admitted and settled. */
async function nsPerDecision({ admission }: Admitting): Promise<number> {
  const before = process.cpuUsage();
  for (let done = 0; done < DECISIONS; done += PER_TURN) {
    for (let i = 0; i < PER_TURN; i++) {
      const made = admission.admit(arrivals[i % arrivals.length]!);
      const verdict = made instanceof Promise ? await made : made;
      if (!verdict.allowed) throw new Error(`refused: ${verdict.body}`);
      admission.settle(verdict, 0, 1024);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1000) / DECISIONS;
}

async function decisions(): Promise<Result[]> {
  const [on, off, bare] = [admitting(true), admitting(false), admitting()];
  const rounds = await alternate(
    ROUNDS,
    () => nsPerDecision(on),
    async () => ({ off: await nsPerDecision(off), bare: await nsPerDecision(bare) }),
  );
  for (const side of [on, off, bare]) await side.close();
  const ratio = median(rounds.map(([with_, { off: without }]) => with_ / without));
  return [
    result("metrics-cost", ratio, "with metrics ÷ without, CPU per decision", below(1.25)),
    result(
      "metrics-cost-ns",
      median(rounds.map(([with_, { off: without }]) => with_ - without)),
      "ns of CPU per decision",
      noBudget,
    ),
    result(
      "metrics-cost-looked-at",
      median(rounds.map(([with_, { bare: plain }]) => with_ / plain)),
      "with metrics ÷ not counted, timed or logged at all, CPU per decision",
      noBudget,
    ),
    result("metrics-cost-decision-ns", median(rounds.map(([with_]) => with_)), "ns of CPU per decision", noBudget),
  ];
}

async function gateways(): Promise<Result[]> {
  const backend = await startSide("backend");
  const sides: Side[] = [];
  try {
    for (const kind of ["gateway-metrics", "gateway-no-metrics"]) sides.push(await startSide(kind, backend.port));
    const [on, off] = sides as [Side, Side];
    const rounds = await alternate(
      GATEWAY_ROUNDS,
      () => measure(on),
      () => measure(off),
    );
    return [
      result(
        "metrics-cost-gateway",
        median(rounds.map(([with_, without]) => with_.perSecond / without.perSecond)),
        "gateway with metrics ÷ without, requests/s",
        atLeast(0.95),
      ),
      result(
        "metrics-cost-gateway-cpu",
        median(rounds.map(([with_, without]) => with_.cpu / without.cpu)),
        "gateway with metrics ÷ without, CPU per request",
        noBudget,
      ),
    ];
  } finally {
    for (const { process: child } of [...sides, backend]) child.kill("SIGKILL");
  }
}

export async function metricsCost(): Promise<Result[]> {
  return [...(await decisions()), ...(await gateways())];
}
