/**
 * Limits on any key in the Node gateway, nginx and Envoy: CPU of a decision with two limits, beyond that of the bare
 * proxy, and calls of the service by Envoy.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type EnvoyProcess, startEnvoy } from "../test/support/envoy-process.js";
import { findEnvoy } from "../test/support/find-envoy.js";
import { startGateway } from "../test/support/gateway-process.js";
import { startNginx } from "../test/support/nginx-process.js";
import { startRedis } from "../test/support/redis-server.js";
import { answeringNginx, bareEnvoy } from "./envoy-sides.js";
import { startSide } from "./gateway.js";
import { atMost, noBudget, type Result, result } from "./results.js";
import { median } from "./rounds.js";
import { cpuNs } from "./support/cpu-time.js";

const run = promisify(execFile);
const ROUNDS = 5;
const SECONDS = 1;
const CONNECTIONS = 64;

const LIMITS = `
limits:
  - { name: user, key: [user], rate: 1000000/s }
  - { name: ip, key: [ip], rate: 1000000/s }
`;

const COUNT = Number(process.env.LIMITS_BENCH_CLIENTS ?? 1_000);

/** Requests of all clients in turn. */
const CLIENTS = `
local requests, at = {}, 0
init = function()
  for i = 1, ${COUNT} do
    local headers = { ["X-App-Id"] = "busy", ["X-User-Id"] = "user-" .. i, ["X-Forwarded-For"] = "192.0.2." .. (i % 250) }
    requests[i] = wrk.format("GET", "/", headers)
  end
end
request = function()
  at = at % ${COUNT} + 1
  return requests[at]
end
`;

const NAMES = ["bare", "app", "limits"] as const;
type Name = (typeof NAMES)[number];

/** A running plane. */
interface Side {
  url: string;
  /** Processes that handle requests. */
  pids(): number[];
  /** Calls of the service so far, where the plane counts them. */
  calls?(): Promise<number>;
}

/** Ends what was started, in the opposite order. */
interface Endings {
  push(end: () => unknown): void;
}

interface Configuration {
  yaml: string;
  /** Addresses of the service. */
  services: string[];
}

async function startService(target: string, limits: string, endings: Endings): Promise<Configuration> {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const yaml = `
store: ${redis.url}
log: { level: error }
apps: { busy: { guaranteed: 1000000, burst: 1000000 } }
cluster: { capacity: 1000000000, rate: 1000000000 }
upstreams: { backend: { targets: ["${target}"] } }
routes: [{ path: /, upstream: backend }]
${limits}`;
  const service = await startGateway(`workers: 1\nnode_id: service\n${yaml}`);
  endings.push(() => service.stop());
  return { yaml, services: [service.controlUrl.replace("http://", "")] };
}

const PROXY = /proxy_pass [^;]+;/g;
const LUA_BLOCK = /^(init|init_worker|log)_by_lua_block \{[^}]*\}\n/gm;
const answering = (text: string) => text.replace(PROXY, "empty_gif;");

function bareNginx(text: string, name: string): string {
  if (name === "tollgate-http.conf") return text.replace(LUA_BLOCK, "");
  return name === "tollgate-location.conf" ? "" : answering(text);
}

async function startNginxSide(name: Name, endings: Endings): Promise<Side> {
  const { yaml, services } = await startService("127.0.0.1:9", name === "limits" ? LIMITS : "", endings);
  const edit = name === "bare" ? bareNginx : answering;
  const nginx = await startNginx(yaml, { services, workers: 1, node: "bench", edit });
  endings.push(() => nginx.stop());
  return { url: nginx.url, pids: () => nginx.workers() };
}

async function startEnvoySide(name: Name, backend: string, endings: Endings): Promise<Side> {
  const { yaml, ...services } = await startService(backend, name === "limits" ? LIMITS : "", endings);
  const options = { ...services, workers: 1, node: "bench" };
  const envoy = await startEnvoy(yaml, name === "bare" ? { ...options, edit: bareEnvoy } : options);
  endings.push(() => envoy.stop());
  return { url: envoy.url, pids: () => [envoy.pid()], calls: () => callsOf(envoy) };
}

const GATEWAY = "gateway";
const GATEWAYS: Record<Name, string> = { bare: "gateway-open", app: "gateway-limiting", limits: "gateway-two-limits" };

async function startGatewaySide(name: Name, backendPort: number, endings: Endings): Promise<Side> {
  const { process, port } = await startSide(GATEWAYS[name], backendPort);
  endings.push(() => process.kill());
  return { url: `http://127.0.0.1:${port}`, pids: () => [process.pid!] };
}

async function callsOf({ admin }: EnvoyProcess): Promise<number> {
  const text = await admin("/stats?filter=tollgate_control.upstream_rq_total");
  return [...text.matchAll(/upstream_rq_total: (\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
}

interface Load {
  /** Microseconds of CPU per request. */
  us: number;
  /** Calls of the service per request. */
  calls: number;
}

async function load({ url, pids, calls = async () => 0 }: Side, script: string): Promise<Load> {
  const callsBefore = await calls();
  const before = cpuNs(pids());
  const { stdout } = await run("wrk", ["-t1", `-c${CONNECTIONS}`, `-d${SECONDS}s`, "-s", script, `${url}/`]);
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  const failed = Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0);
  if (failed > requests / 100) throw new Error(`${url}: ${failed} of ${requests} failed\n${stdout}`);
  const us = (cpuNs(pids()) - before) / requests / 1000;
  return { us, calls: ((await calls()) - callsBefore) / requests };
}

async function measure(plane: string, start: (name: Name, endings: Endings) => Promise<Side>): Promise<Result[]> {
  const endings: (() => unknown)[] = [];
  const folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"));
  endings.push(() => rmSync(folder, { recursive: true }));
  const clients = join(folder, "clients.lua");
  writeFileSync(clients, CLIENTS);
  try {
    const sides = {} as Record<Name, Side>;
    for (const name of NAMES) sides[name] = await start(name, endings);
    const rounds: Record<Name, number>[] = [];
    const calls: number[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const cpu = { app: 0, limits: 0, bare: 0 };
      for (const name of NAMES) {
        await load(sides[name], clients);
        const measured = await load(sides[name], clients);
        cpu[name] = measured.us;
        if (round > 0 && name === "limits") calls.push(measured.calls);
      }
      if (round > 0) rounds.push(cpu);
    }
    const results = resultsOf(plane, rounds);
    if (sides.limits.calls === undefined) return results;
    const what = "calls of the service per request with two limits";
    return [...results, result(`limits-${plane.toLowerCase()}-calls`, median(calls), what, atMost(0.1))];
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

function resultsOf(plane: string, rounds: readonly Record<Name, number>[]): Result[] {
  const prefix = `limits-${plane.toLowerCase()}`;
  const us = (name: Name) => median(rounds.map((round) => round[name]));
  const decision = median(rounds.map(({ app, limits, bare }) => (limits - bare) / (app - bare)));
  const whole = median(rounds.map(({ app, limits }) => limits / app));
  const what = "app and two limits ÷ app only, CPU";
  // Of a request through the Node gateway the decision is too small a part to be found as a difference; see `limits`.
  const beyondBare = result(`${prefix}-decision-cpu`, decision, `${what} beyond bare ${plane}`, atMost(1.5));
  return [
    ...(plane === GATEWAY ? [] : [beyondBare]),
    result(`${prefix}-cpu`, whole, `${what} of the whole request`, noBudget),
    result(`${prefix}-us`, us("limits"), "µs CPU with two limits", noBudget),
    result(`${prefix}-app-us`, us("app"), "µs CPU, app only", noBudget),
    result(`${prefix}-bare-us`, us("bare"), `µs CPU, bare ${plane}`, noBudget),
  ];
}

export async function limitsGateway(): Promise<Result[]> {
  const backend = await answeringNginx();
  try {
    return await measure(GATEWAY, (name, endings) => startGatewaySide(name, backend.port, endings));
  } finally {
    await backend.stop();
  }
}

export function limitsNginx(): Promise<Result[]> {
  return measure("nginx", startNginxSide);
}

export async function limitsEnvoy(): Promise<Result[]> {
  if (findEnvoy() === undefined) {
    console.error("*** ENVOY IS NOT AVAILABLE: not measured");
    return [];
  }
  const backend = await answeringNginx();
  try {
    const address = `127.0.0.1:${backend.port}`;
    return await measure("Envoy", (name, endings) => startEnvoySide(name, address, endings));
  } finally {
    await backend.stop();
  }
}
