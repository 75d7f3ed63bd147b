/**
 * `make soak-envoy`: one Envoy with the dynamic module under random requests, aborts, resets, upgrades and changes of its script and
 * listener, for MINUTES, from SEED. By default with the build of the module that checks every access to memory. Passes if Envoy
 * never ends and answers at the end, nothing is left open, and its memory stays bounded.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { fromRoot } from "../build/paths.js";
import { type EnvoyProcess, envoyPlane, startEnvoy } from "../test/support/envoy-process.js";
import { ADMIN_TOKEN, type GatewayProcess, startGateway } from "../test/support/gateway-process.js";
import { freePort } from "../test/support/ports.js";
import { residentMb } from "../test/support/process-usage.js";
import { createRandom } from "../test/support/random.js";
import { startRedis } from "../test/support/redis-server.js";
import { startSocketPod } from "../test/support/socket-pods.js";
import { pause, waitFor } from "../test/support/wait-for.js";
import { startEnvoyClients } from "./envoy-clients.js";
import { startUnreliableBackend } from "./unreliable-backend.js";

const { MINUTES = "10", SEED = "", VARIANT = "checked" } = process.env;
const minutes = Number(MINUTES);
const seed = SEED === "" ? Math.floor(Math.random() * 2 ** 31) : Number(SEED);
if (!(minutes > 0) || !Number.isInteger(seed)) {
  console.error("MINUTES must be a positive number, SEED a whole number");
  process.exit(2);
}
const random = createRandom(seed);
/** Between two changes. */
const [SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS] = [1_000, 7_000];
const PAUSED_MS = 1_500;
/** Memory at the end beyond that after the first tenth. Scripts, buffers and values of the load are much less. */
const MOST_GROWTH_MB = 150;
const WORKERS = 2;
/** A run with less of these results is too short, or its machine too slow, to show anything. */
const LEAST_PER_MINUTE = { "200": 300, "429": 10, "503": 10, aborted: 20, reset: 20, socket: 20 };

process.env.TOLLGATE_ENVOY_MODULE = execFileSync(fromRoot("build/envoy-module.sh"), [VARIANT], {
  encoding: "utf8",
}).trim();
envoyPlane();
console.log(`SEED=${seed} MINUTES=${minutes} VARIANT=${VARIANT}`);

const redis = await startRedis();
const backend = await startUnreliableBackend(createRandom(seed + 1));
const pods = [await startSocketPod(() => undefined), await startSocketPod(() => undefined)];
let changes = 0;
/** Each one differs in something that the script has, and every third in the listener, too. */
const configuration = () => `store: ${redis.url}
log: { level: error }
identity: { trusted_hops: [127.0.0.0/8] }
lease: { timeout_ms: 500 }
timeouts: { keep_alive_ms: ${60_000 + Math.floor(changes / 3)} }
request_limits: { body_bytes: 2000000, requests_per_client: 0, connections_per_client: 0 }
fail_open_tokens: 50
apps:
  default: { guaranteed: 2000, burst: 4000 }
  few: { guaranteed: 20, burst: 40 }
  cut: { guaranteed: 200, burst: 400, unknown_length: cut }
  delay: { guaranteed: 200, burst: 400, unknown_length: delay }
  closed: { guaranteed: 200, burst: 400, on_store_failure: closed }
  extra-${changes}: { guaranteed: 1, burst: 1 }
cluster: { capacity: 20000, rate: 10000 }
limits:
  - { name: by-user, key: [user], rate: 50/s, match: { path: [/limited/] } }
  - { name: by-address, key: [ip], rate: 500/s, match: { path: [/limited/] } }
upstreams: { backend: { targets: ["${backend.target}"] }, pods: { targets: [${pods.map(({ address }) => `"${address}"`).join(", ")}] } }
routes:
  - { path: /, upstream: backend }
  - { path: /priced/, upstream: backend, cost_header: X-Cost }
  - { path: /ws/, upstream: pods, connections: { max_per_pod: 6, max_total: 0, rate_per_second: 0, max_per_client: 0, lease_s: 5 } }
`;
const ports = { port: await freePort(), controlPort: await freePort() };
const startService = () => startGateway(`node_id: service\nworkers: 1\n${configuration()}`, { ports, built: true });
let service: GatewayProcess = await startService();
const envoy: EnvoyProcess = await startEnvoy(configuration(), {
  services: [service.controlUrl.replace("http://", "")],
  node: "envoy",
  dynamic: true,
  workers: WORKERS,
});
const pid = envoy.pid();
const isAlive = () => {
  try {
    process.kill(pid, 0);
    return envoy.pid() === pid;
  } catch {
    return false;
  }
};

/** What happens to the system while requests run. */
const events: [string, () => Promise<void>][] = [
  [
    "another script and listener",
    async () => {
      changes += 1;
      await envoy.reload(configuration());
    },
  ],
  ["a script that does not load", () => replaceScript((text) => `error("does not load")\n${text}`)],
  ["a script that fails for some requests", failForAWhile],
  [
    "the store stops for a while",
    async () => {
      redis.pause();
      await pause(PAUSED_MS);
      redis.resume();
    },
  ],
  ["the store is killed", async () => redis.restart()],
  [
    "the service stops for a while",
    async () => {
      service.signalAll("SIGSTOP");
      await pause(PAUSED_MS);
      service.signalAll("SIGCONT");
    },
  ],
  [
    "the service is killed",
    async () => {
      service.killAll();
      await service.ended;
      service = await startService();
    },
  ],
  [
    "a pod dies and comes back",
    async () => {
      const pod = pods[Math.floor(random() * pods.length)]!;
      await pod.die();
      await pause(PAUSED_MS);
      await pod.revive();
    },
  ],
];

async function replaceScript(edit: (text: string) => string): Promise<void> {
  const file = join(envoy.dir, "tollgate.lua");
  await envoy.reload(configuration());
  const text = readFileSync(file, "utf8");
  writeFileSync(`${file}.next`, edit(text));
  renameSync(`${file}.next`, file);
  await pause(PAUSED_MS);
}

async function failForAWhile(): Promise<void> {
  await replaceScript(
    (text) => `${text}
local request, response = _G.tollgate_request, _G.tollgate_response
local count = 0
_G.tollgate_request = function(...)
  count = count + 1
  if count % 7 == 0 then error("fails on purpose") end
  return request(...)
end
_G.tollgate_response = function(...)
  if count % 5 == 0 then error("fails on purpose") end
  return response(...)
end
`,
  );
  await envoy.reload(configuration());
}

async function playEvents(until: number): Promise<void> {
  while (performance.now() < until && isAlive()) {
    const [name, play] = events[Math.floor(random() * events.length)]!;
    console.log(`${((performance.now() - started) / 1_000).toFixed(0).padStart(5)} s  ${name}`);
    await play();
    await pause(SHORTEST_PAUSE_MS + random() * (LONGEST_PAUSE_MS - SHORTEST_PAUSE_MS));
  }
}

const active = async () => {
  const text = await envoy.admin("/stats?filter=http.tollgate.downstream_rq_active");
  return Number(/downstream_rq_active: (\d+)/.exec(text)?.[1]);
};

async function slots(): Promise<number> {
  const { body } = await request(`${service.controlUrl}/admin/ratelimit/connections`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
  });
  const { pods: found } = (await body.json()) as { pods: { connections: number }[] };
  return found.reduce((sum, { connections }) => sum + connections, 0);
}

async function judge(memoryMb: number, counts: Record<string, number>): Promise<string[]> {
  const problems: string[] = [];
  const require = async (what: string, test: () => Promise<boolean>) => {
    await waitFor(what, test, { withinMs: 60_000 }).catch((error: unknown) => problems.push(String(error)));
  };
  if (!isAlive()) return [`Envoy has ended:\n${envoy.log().slice(-3_000)}`];
  await require("all requests to end", async () => (await active()) === 0);
  await require("all slots to be free", async () => (await slots()) === 0);
  await require("the pods to have no connections", async () => pods.every(({ live }) => live.size === 0));
  await require("a request to be admitted", async () => {
    const { statusCode, body } = await request(`${envoy.url}/`, { headers: { "x-app-id": "default" } });
    await body.dump();
    return statusCode === 200;
  });
  for (const [status, perMinute] of Object.entries(LEAST_PER_MINUTE)) {
    if ((counts[status] ?? 0) < perMinute * minutes)
      problems.push(`only ${counts[status] ?? 0} × ${status}: the load is too small`);
  }
  const growth = residentMb(pid) - memoryMb;
  if (growth > MOST_GROWTH_MB) problems.push(`memory has grown by ${growth.toFixed(0)} MB`);
  return problems;
}

const started = performance.now();
const durationMs = minutes * 60_000;
const clients = startEnvoyClients({ port: envoy.port, random: createRandom(seed + 2) });
let problems: string[] = [];
try {
  const end = started + durationMs;
  await playEvents(started + durationMs / 10);
  const memoryMb = residentMb(pid);
  await playEvents(end);
  await clients.stop();
  problems = await judge(memoryMb, clients.counts());
  console.log(JSON.stringify({ ...clients.counts(), changes, memoryMb: [memoryMb, isAlive() ? residentMb(pid) : 0] }));
} catch (error) {
  problems.push(isAlive() ? String(error) : `Envoy has ended: ${String(error)}\n${envoy.log().slice(-3_000)}`);
} finally {
  await clients.stop();
  await envoy.stop();
  await service.stop();
  for (const pod of pods) await pod.stop();
  await backend.stop();
  await redis.stop();
}
for (const problem of problems) console.error(problem);
console.log(`SEED=${seed} MINUTES=${minutes} VARIANT=${VARIANT}: ${problems.length === 0 ? "PASSED" : "FAILED"}`);
process.exit(problems.length === 0 ? 0 : 1);
