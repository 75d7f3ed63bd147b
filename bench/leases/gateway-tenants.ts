/** One gateway with two workers and 10,000 tenants in turn, beside one with a single tenant, on one Redis. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { request } from "undici";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  startGateway,
  startSmallBackend,
  workersOf,
} from "../../test/support/gateway-process.js";
import { type ReadPage, readPage } from "../../test/support/metrics-page.js";
import { startRedis } from "../../test/support/redis-server.js";
import { alternate, median } from "../rounds.js";
import { createMemoryProbe, type MemoryProbe } from "../support/memory.js";

export const TENANTS = 10_000;
const CONNECTIONS = 64;
/** After this many requests nearly every tenant has sent one to every worker. */
const WARM_UP_REQUESTS = 8 * TENANTS;
const ROUNDS = 3;
const SECONDS = 4;
const run = promisify(execFile);

export interface TenantFigures {
  /** Of the gateway with many tenants ÷ one tenant. */
  throughput: number;
  perSecond: number;
  localRatio: number;
  meanMs: number;
  /** Upper end of the histogram bucket. */
  p99Ms: number;
  /** Memory in use of the largest worker, above the largest one of the gateway with one tenant. */
  workerMb: number;
  primaryMb: number;
  /** The same as resident memory, garbage and free pages included. */
  workerResidentMb: number;
}

const yaml = (store: string, target: string, tenants: number) => `
node_id: gw-${tenants}
workers: 2
store: ${store}
cluster: { id: tenants-${tenants}, capacity: 1000000000, rate: 1000000000 }
apps:
${Array.from({ length: tenants }, (_, i) => `  app-${i}: { guaranteed: 100000, burst: 1000000 }`).join("\n")}
upstreams: { backend: { targets: ["${target}"] } }
routes: [{ path: /, upstream: backend }]
log: { level: warn }
`;

/** A script for wrk: the tenants in turn. */
const inTurn = (tenants: number) => `
local next = 0
request = function()
  next = next + 1
  return wrk.format("GET", "/", { ["X-App-Id"] = "app-" .. next % ${tenants} })
end
`;

export async function manyTenants(): Promise<TenantFigures> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-tenants-"));
  const memory = createMemoryProbe();
  const endings: (() => unknown)[] = [() => rmSync(dir, { recursive: true }), () => memory.end()];
  try {
    const server = await startRedis();
    endings.push(() => server.stop());
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    const start = async (tenants: number) => {
      const gateway = await startGateway(yaml(server.url, backend.target, tenants), {
        built: true,
        env: { NODE_OPTIONS: memory.nodeOptions },
      });
      endings.push(() => gateway.stop());
      const script = join(dir, `${tenants}.lua`);
      writeFileSync(script, inTurn(tenants));
      return { gateway, load: (seconds: number) => requestsPerSecond(gateway.url, script, seconds) };
    };
    const one = await start(1);
    const many = await start(TENANTS);
    await one.load(SECONDS);
    for (let sent = 0; sent < WARM_UP_REQUESTS; ) sent += SECONDS * (await many.load(SECONDS));
    const before = await metricsOf(many.gateway);
    const rounds = await alternate(
      ROUNDS,
      () => many.load(SECONDS),
      () => one.load(SECONDS),
    );
    const after = await metricsOf(many.gateway);
    const resident = largestWorkerMb(many.gateway) - largestWorkerMb(one.gateway);
    const [worker, primary] = await usedMb(many.gateway, memory);
    const [workerWithOne, primaryWithOne] = await usedMb(one.gateway, memory);
    return {
      throughput: median(rounds.map(([a, b]) => a / b)),
      perSecond: median(rounds.map(([a]) => a)),
      ...latencyBetween(before, after),
      workerMb: worker - workerWithOne,
      primaryMb: primary - primaryWithOne,
      workerResidentMb: resident,
    };
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

async function requestsPerSecond(url: string, script: string, seconds: number): Promise<number> {
  const { stdout } = await run("wrk", ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "-s", script, url]);
  const failed = /Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)/.exec(stdout)?.[0];
  if (failed !== undefined) throw new Error(`${url}: ${failed}`);
  return Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]);
}

async function metricsOf(gateway: GatewayProcess): Promise<ReadPage> {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const { body } = await request(`${gateway.controlUrl}/metrics`, { headers });
  return readPage(await body.text());
}

function latencyBetween(before: ReadPage, after: ReadPage) {
  const name = "ratelimit_check_latency_seconds";
  const grown = (part: string, labels: Record<string, string> = {}) =>
    after.sum(`${name}_${part}`, labels) - before.sum(`${name}_${part}`, labels);
  const seconds = (le: string) => Number(le.replace("+Inf", "Infinity"));
  const decisions = grown("count");
  const buckets = new Set(after.samples.filter((one) => one.name === `${name}_bucket`).map((one) => one.labels.le!));
  const ends = [...buckets].sort(
    (a, b) => Number(a.replace("+Inf", "Infinity")) - Number(b.replace("+Inf", "Infinity")),
  );
  const p99 = ends.find((le) => grown("bucket", { le }) >= decisions * 0.99)!;
  return {
    localRatio: grown("count", { source: "local" }) / decisions,
    meanMs: (grown("sum") / decisions) * 1000,
    p99Ms: seconds(p99) * 1000,
  };
}

/** Memory in use of the largest worker and of the primary. */
async function usedMb({ pid }: GatewayProcess, memory: MemoryProbe): Promise<[number, number]> {
  const workers = await Promise.all(workersOf(pid).map((worker) => memory.usedMb(worker)));
  return [Math.max(...workers), await memory.usedMb(pid)];
}

/** Resident memory of the largest worker. */
function largestWorkerMb({ pid }: GatewayProcess): number {
  const residentMb = (of: number) =>
    (Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${of}/status`, "utf8"))?.[1]) * 1_024) / 1e6;
  return Math.max(...workersOf(pid).map(residentMb));
}
