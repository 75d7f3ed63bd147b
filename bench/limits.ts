/** Limits on any key: CPU of a decision with two limits, ledger entries with many slow users, and a million values. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { ALL_HEADERS } from "../src/core/response-headers.js";
import type { RequestAttributes } from "../src/limit-rules/limit-rules.js";
import { createLimiter } from "../src/limiter/limiter.js";
import { compileLimits, type LimitOptions } from "../src/limiter/limits/limit-options.js";
import { createRateLimitAdmission } from "../src/planes/node/http/request-admission.js";
import { createQuota } from "../src/quota/quota.js";
import { createEmbeddedStore } from "../src/store/embedded/embedded-store.js";
import { createSimulation, limitedApp } from "../test/support/simulation.js";
import { atMost, noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const PLENTY = 1e9;
const ROUNDS = 9;
const DECISIONS = 200_000;
const CLIENTS = Number(process.env.LIMITS_BENCH_CLIENTS ?? 1_000);
/** Entries per request do not depend on their number; 10,000 take ten times as long. */
const USERS = Number(process.env.LIMITS_BENCH_USERS ?? 1_000);

export const TWO_LIMITS: LimitOptions[] = [
  { name: "user", key: ["user"], rate: "1000000000/s" },
  { name: "ip", key: ["ip"], rate: "1000000000/s" },
];

function startLimiter(limits: LimitOptions[]) {
  const store = createEmbeddedStore();
  const limiter = createLimiter({
    node: "bench",
    target: createQuota(store, { id: "bench", capacity: PLENTY, rate: PLENTY, nodeTtlMs: 10_000 }),
    lease: { reserve: 1_000_000 },
    apps: [limitedApp({ id: "app", guaranteed: PLENTY, burst: PLENTY })],
    limits: compileLimits(limits),
  });
  return { limiter, close: () => limiter.close().then(() => store.close()) };
}

/** CPU per call, in microseconds. `decide` returns a promise for a request that waits. */
async function cpuOf(decide: (client: number) => unknown): Promise<number> {
  let cpu = 0;
  for (let done = 0; done < DECISIONS; done += CLIENTS) {
    const before = process.cpuUsage();
    const waiting: unknown[] = [];
    for (let client = 0; client < CLIENTS; client++) {
      const made = decide(client);
      if (made instanceof Promise) waiting.push(made);
    }
    const used = process.cpuUsage(before);
    cpu += used.user + used.system;
    await Promise.all(waiting);
    // The event loop must turn, so that leases are refilled.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return cpu / DECISIONS;
}

/**
 * The first request of each client, one after the other. If all of them waited for the store at once, their decisions would
 * outlive a garbage collection, and V8 would allocate all later ones in old space, where they cost several times as much.
 */
async function startClients(decide: (client: number) => unknown): Promise<void> {
  for (let client = 0; client < CLIENTS; client++) await decide(client);
}

/** Only the check of the library. */
export function checkSide(limits: LimitOptions[]) {
  const { limiter, close } = startLimiter(limits);
  const requests = Array.from({ length: CLIENTS }, (_, i) =>
    limits.length === 0 ? undefined : { ...attributes(`user-${i}`), address: `192.0.2.${i % 250}` },
  );
  const decide = (client: number) => limiter.check("app", "GET", 0, requests[client]);
  return { start: () => startClients(decide), cpuMicroseconds: () => cpuOf(decide), close };
}

/** Requests of many clients, as the gateway decides and settles them: identity, decision, headers. */
export function gatewaySide(limits: LimitOptions[]) {
  const { limiter, close } = startLimiter(limits);
  const admission = createRateLimitAdmission({
    limiter,
    appHeader: "X-App-Id",
    userHeader: "X-User-Id",
    apiKeyHeader: "X-API-Key",
    apiKeys: {},
    rules: { refuseUntrustedHeaders: false, refuseUnknownApps: false },
    forwardIdentity: true,
    headers: ALL_HEADERS,
    isTrustedHop: (address) => address === "127.0.0.1",
    hasLimits: limits.length > 0,
    isConfigured: () => true,
  });
  const arrivals = Array.from({ length: CLIENTS }, (_, i) => {
    const headers: Record<string, string[]> = { "x-app-id": ["app"], "x-user-id": [`user-${i}`] };
    return {
      method: "GET",
      remoteAddress: "127.0.0.1",
      contentLength: 0,
      host: "example.com",
      path: "/items",
      forwardedFor: `192.0.2.${i % 250}`,
      headerValues: (name: string) => headers[name] ?? [],
    };
  });
  const decide = (client: number) => {
    const verdict = admission.admit(arrivals[client]!);
    if (verdict instanceof Promise) return verdict.then((made) => admission.settle(made, 0, 1_000));
    return admission.settle(verdict, 0, 1_000);
  };
  return { start: () => startClients(decide), cpuMicroseconds: () => cpuOf(decide), close };
}

async function decisionCpu(name: string, what: string, side: typeof checkSide): Promise<Result[]> {
  const [plain, limited] = [side([]), side(TWO_LIMITS)];
  await plain.start();
  await limited.start();
  await plain.cpuMicroseconds();
  await limited.cpuMicroseconds();
  const pairs = await alternate(ROUNDS, limited.cpuMicroseconds, plain.cpuMicroseconds);
  await plain.close();
  await limited.close();
  const of = (read: (pair: [number, number]) => number) => median(pairs.map(read));
  return [
    result(
      `limits-${name}-cpu`,
      of(([a, b]) => a / b),
      `${what}: app and two limits ÷ app only, CPU`,
      atMost(1.5),
    ),
    result(
      `limits-${name}-us`,
      of(([a]) => a),
      "µs CPU with two limits",
      noBudget,
    ),
    result(
      `app-${name}-us`,
      of(([, b]) => b),
      "µs CPU, app only",
      noBudget,
    ),
  ];
}

function attributes(user: string): RequestAttributes {
  return {
    ...{ app: "app", user, method: "GET", host: "example.com", path: "/", address: "192.0.2.1" },
    headerCount: () => 0,
    header: () => "",
  };
}

/** Users with one request per 10 s each, in turn on three nodes. */
async function ledgerEntries(): Promise<Result[]> {
  const [users, seconds, warmSeconds] = [USERS, 1_500, 600];
  const limits = compileLimits([{ name: "user", key: ["user"], rate: "60/min" }]);
  const app = limitedApp({ id: "app", guaranteed: 1e8, burst: 1e8 });
  const simulation = createSimulation([app], { capacity: PLENTY, rate: PLENTY }, { limits, maxValues: 20_000 });
  const nodes = [0, 1, 2].map((i) => simulation.addNode(`n${i}`));
  let requests = 0;
  let refused = 0;
  const [gapMs, atOnce] = [10, users / 1_000];
  let next = 0;
  const tick = () => {
    if (simulation.clock.now() >= seconds * 1000) return;
    simulation.clock.after(gapMs, tick);
    for (let i = 0; i < atOnce; i++) {
      const user = next % users;
      const node = nodes[(user + Math.floor(next / users)) % 3]!;
      next++;
      requests++;
      void Promise.resolve(node.limiter.check("app", "GET", 0, attributes(`u${user}`))).then(({ allowed }) => {
        if (!allowed) refused++;
      });
    }
  };
  simulation.clock.after(1, tick);
  await simulation.clock.advance(warmSeconds * 1000);
  const before = { entries: simulation.store.entries, requests };
  await simulation.clock.advance((seconds - warmSeconds) * 1000);
  const entries = (simulation.store.entries - before.entries) / (requests - before.requests);
  return [
    result("limits-ledger-entries", entries, "entries/request, users at 0.1/s on 3 nodes, 60/min", atMost(0.2)),
    result("limits-slow-users-refused", refused, "requests", atMost(0)),
  ];
}

/** A million values against one limiter: memory, and what passes. */
async function millionValues(): Promise<Result[]> {
  const [values, most] = [1_000_000, 10_000];
  const limits = compileLimits([{ name: "user", key: ["user"], rate: "1/min" }]);
  const app = limitedApp({ id: "app", guaranteed: 1e8, burst: 1e8 });
  const simulation = createSimulation([app], { capacity: PLENTY, rate: PLENTY }, { limits, maxValues: most });
  const node = simulation.addNode("n1");
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed / 1024 / 1024;
  };
  const before = heap();
  let admitted = 0;
  let highest = 0;
  for (let i = 0; i < values; i++) {
    const made = node.limiter.check("app", "GET", 0, attributes(`value-${i}`));
    void Promise.resolve(made).then(({ allowed }) => {
      if (allowed) admitted++;
    });
    if (i % 500 === 499) {
      await simulation.clock.advance(5);
      highest = Math.max(highest, node.limiter.limits.count());
    }
  }
  await simulation.clock.advance(2_000);
  const grown = heap() - before;
  await simulation.clock.advance(180_000);
  return [
    result("limits-million-buckets", highest, "buckets at most, 1,000,000 values", atMost(most)),
    result("limits-million-heap", grown, "MB more heap after 1,000,000 values", noBudget),
    result("limits-million-admitted", admitted / values, "share admitted (1/min each; no room: shared)", noBudget),
    result("limits-million-left", node.limiter.limits.count(), "buckets after three idle minutes", atMost(0)),
  ];
}

export async function limits(): Promise<Result[]> {
  return [
    ...(await decisionCpu("check", "check of the library", checkSide)),
    ...(await decisionCpu("decision", "decision of the gateway", gatewaySide)),
    ...(await ledgerEntries()),
    ...(await millionValues()),
  ];
}
