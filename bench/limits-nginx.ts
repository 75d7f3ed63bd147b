/** Limits on any key in nginx: CPU of a decision with two limits. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { startGateway } from "../test/support/gateway-process.js";
import { type NginxProcess, startNginx } from "../test/support/nginx-process.js";
import { startRedis } from "../test/support/redis-server.js";
import { atMost, noBudget, type Result, result } from "./results.js";
import { median } from "./rounds.js";

const run = promisify(execFile);
const ROUNDS = 5;
const SECONDS = 1;
const CONNECTIONS = 64;

const LIMITS = `
limits:
  - { name: user, key: [user], rate: 1000000/s }
  - { name: ip, key: [ip], rate: 1000000/s }
`;

/** Requests of 1,000 clients in turn. */
const CLIENTS = `
local requests, at = {}, 0
init = function()
  for i = 1, 1000 do
    local headers = { ["X-App-Id"] = "busy", ["X-User-Id"] = "user-" .. i, ["X-Forwarded-For"] = "192.0.2." .. (i % 250) }
    requests[i] = wrk.format("GET", "/", headers)
  end
end
request = function()
  at = at % 1000 + 1
  return requests[at]
end
`;

const PROXY = /proxy_pass [^;]+;/g;
const LUA_BLOCK = /^(init|init_worker|log)_by_lua_block \{[^}]*\}\n/gm;
const answering = (text: string) => text.replace(PROXY, "empty_gif;");

function bare(text: string, name: string): string {
  if (name === "tollgate-http.conf") return text.replace(LUA_BLOCK, "");
  return name === "tollgate-location.conf" ? "" : answering(text);
}

const workersOf = (nginx: NginxProcess, read: (pid: number) => number) =>
  nginx.workers().reduce((sum, pid) => sum + read(pid), 0);
const cpuNs = (pid: number) => Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]);

async function load(nginx: NginxProcess, script: string, seconds: number) {
  const before = workersOf(nginx, cpuNs);
  const { stdout } = await run("wrk", ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "-s", script, `${nginx.url}/`]);
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  return { requests, cpuUs: (workersOf(nginx, cpuNs) - before) / requests / 1000 };
}

export async function limitsNginx(): Promise<Result[]> {
  const endings: (() => unknown)[] = [];
  const folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"));
  endings.push(() => rmSync(folder, { recursive: true }));
  const clients = join(folder, "clients.lua");
  writeFileSync(clients, CLIENTS);
  async function start(limits: string, edit: (text: string, name: string) => string): Promise<NginxProcess> {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const yaml = `
store: ${redis.url}
log: { level: error }
apps: { busy: { guaranteed: 1000000, burst: 1000000 } }
cluster: { capacity: 1000000000, rate: 1000000000 }
upstreams: { backend: { targets: ["127.0.0.1:9"] } }
routes: [{ path: /, upstream: backend }]
${limits}`;
    const service = await startGateway(`workers: 1\nnode_id: service\n${yaml}`);
    endings.push(() => service.stop());
    const services = [service.controlUrl.replace("http://", "")];
    const nginx = await startNginx(yaml, { services, workers: 1, node: "bench", edit });
    endings.push(() => nginx.stop());
    return nginx;
  }
  try {
    const sides = {
      bare: await start("", bare),
      app: await start("", answering),
      limits: await start(LIMITS, answering),
    };
    const rounds: { app: number; limits: number; bare: number }[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const cpu = { app: 0, limits: 0, bare: 0 };
      for (const name of ["bare", "app", "limits"] as const) {
        await load(sides[name], clients, SECONDS);
        cpu[name] = (await load(sides[name], clients, SECONDS)).cpuUs;
      }
      if (round > 0) rounds.push(cpu);
    }
    const of = (read: (round: (typeof rounds)[number]) => number) => median(rounds.map(read));
    return [
      result(
        "limits-nginx-decision-cpu",
        of(({ app, limits, bare: none }) => (limits - none) / (app - none)),
        "app and two limits ÷ app only, CPU beyond bare nginx",
        atMost(1.5),
      ),
      result(
        "limits-nginx-cpu",
        of(({ app, limits }) => limits / app),
        "the same, CPU of the whole request",
        noBudget,
      ),
      result(
        "limits-nginx-us",
        of(({ limits }) => limits),
        "µs CPU with two limits",
        noBudget,
      ),
      result(
        "limits-nginx-app-us",
        of(({ app }) => app),
        "µs CPU, app only",
        noBudget,
      ),
      result(
        "limits-nginx-bare-us",
        of(({ bare: none }) => none),
        "µs CPU, bare nginx",
        noBudget,
      ),
    ];
  } finally {
    for (const end of endings.reverse()) await end();
  }
}
