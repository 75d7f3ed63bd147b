/** One server of the gateway benchmark in its own process: `tsx gateway-side.ts <kind> <backend port>` prints its port. */
import { Agent, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import proxyPlugin from "@fastify/http-proxy";
import Fastify from "fastify";
import { createProxyServer } from "http-proxy-3";
import { standardProfile } from "../src/core/cost.js";
import { ALL_HEADERS } from "../src/core/response-headers.js";
import { createLimiter, type LimiterObserver } from "../src/limiter/limiter.js";
import { compileLimits, type LimitOptions } from "../src/limiter/limits/limit-options.js";
import { createProxy } from "../src/planes/node/http/proxy.js";
import type { Admission } from "../src/planes/node/http/request-admission.js";
import { createRateLimitAdmission } from "../src/planes/node/http/request-admission.js";
import { createQuota } from "../src/quota/quota.js";
import { createDecisionLog } from "../src/service/metrics/decision-log.js";
import { createNodeMetrics } from "../src/service/metrics/node-metrics.js";
import { limiterObserver } from "../src/service/process/gateway.js";
import { createLog } from "../src/service/process/log.js";
import { createEmbeddedStore } from "../src/store/embedded/embedded-store.js";
import { TWO_LIMITS } from "./limits.js";

const PLENTY = 1e9;
const BODY = Buffer.alloc(1024, "x");
const [kind = "", backend = "0"] = process.argv.slice(2);
const target = `127.0.0.1:${backend}`;
const log = { info: () => undefined, warn: () => undefined };

function listen(server: { listen(port: number, host: string, done: () => void): unknown; address(): unknown }): void {
  server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
}

function gateway(admission: Admission): void {
  const { server } = createProxy({
    routes: [{ path: "/", upstream: "backend" }],
    upstreams: { backend: { targets: [target] } },
    admission,
    log,
  });
  listen(server);
}

function limiting(observer?: LimiterObserver, limits: LimitOptions[] = []) {
  const quota = createQuota(createEmbeddedStore(), { id: "bench", capacity: PLENTY, rate: PLENTY, nodeTtlMs: 10_000 });
  const app = { id: "default", guaranteed: PLENTY, burst: PLENTY, priority: 1, borrow: false };
  const limiter = createLimiter({
    node: "bench",
    target: quota,
    observer,
    limits: compileLimits(limits),
    apps: [{ ...app, profile: standardProfile, onStoreFailure: "open", dryRun: false }],
  });
  return createRateLimitAdmission({
    limiter,
    appHeader: "X-App-Id",
    userHeader: "X-User-Id",
    apiKeyHeader: "X-API-Key",
    apiKeys: {},
    rules: { refuseUntrustedHeaders: false, refuseUnknownApps: false },
    forwardIdentity: true,
    headers: ALL_HEADERS,
    isTrustedHop: () => true,
    hasLimits: limits.length > 0,
    isConfigured: (id) => id === "default",
  });
}

/** The limiter as in the service, with metrics and logs. */
function observed(enabled: boolean): Admission {
  const metrics = createNodeMetrics({ node: "bench", enabled, apps: ["default"], limits: [], appLabels: 1_000 });
  const silent = createLog({ level: "silent", node: "bench" });
  const decisionLog = createDecisionLog({ log: silent, perSecond: () => 5, slowMs: () => 100 });
  return limiting(limiterObserver(silent, metrics, decisionLog));
}

const open: Admission = {
  admit: () => ({ allowed: true, headers: {}, status: 200, body: "", app: "default" }),
  settle: () => undefined,
};

const kinds: Record<string, () => void> = {
  backend: () =>
    listen(
      createServer((_request, response) => {
        response.writeHead(200, { "Content-Type": "text/plain", "Content-Length": BODY.length });
        response.end(BODY);
      }),
    ),
  "gateway-limiting": () => gateway(limiting()),
  "gateway-two-limits": () => gateway(limiting(undefined, TWO_LIMITS)),
  "gateway-metrics": () => gateway(observed(true)),
  "gateway-no-metrics": () => gateway(observed(false)),
  "gateway-open": () => gateway(open),
  "http-proxy-3": () => {
    // Without an agent it would open a connection per request, which nobody does in production.
    const agent = new Agent({ keepAlive: true, maxSockets: 512 });
    const proxy = createProxyServer({ target: `http://${target}`, agent });
    listen(createServer((request, response) => proxy.web(request, response)));
  },
  "fastify-http-proxy": async () => {
    const fastify = Fastify();
    await fastify.register(proxyPlugin, { upstream: `http://${target}` });
    await fastify.ready();
    listen(fastify.server);
  },
};

kinds[kind]?.();
