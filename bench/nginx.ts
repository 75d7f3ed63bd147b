/** Measures nginx with Tollgate beside a bare nginx, `limit_req`, and a limiter that calls Redis for each request. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { request } from "undici";
import { luaResults } from "./nginx-lua.js";
import { type NginxSide, type SideName, startSides } from "./nginx-sides.js";
import { atLeast, below, noBudget, type Result, result } from "./results.js";
import { median } from "./rounds.js";

const ROUNDS = 5;
const SECONDS = 1;
const CONNECTIONS = 64;
const PROXIES: SideName[] = [
  "bare",
  "tollgate",
  "ietf-headers",
  "no-headers",
  "handlers",
  "headers",
  "limit-req",
  "redis-lua",
];
const ANSWERERS: SideName[] = ["return-200", "decision"];
const MEMORY_REQUESTS = Number(process.env.NGINX_BENCH_REQUESTS ?? 400_000);
const run = promisify(execFile);

const PROBED: SideName[] = ["probed-tollgate", "probed-handlers"];

interface Measured {
  requests: number;
  perSecond: number;
  /** CPU time of the workers per request. */
  cpuUs: number;
  p99Ms: number;
}

type Round = Record<string, Measured>;

export async function measure({ nginx, cpuNs }: NginxSide, seconds = SECONDS): Promise<Measured> {
  const before = cpuNs();
  const args = ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "--latency", "-H", "X-App-Id: busy", `${nginx.url}/`];
  const { stdout } = await run("wrk", args);
  const failed = /Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1];
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  // Before the first tokens are granted some requests may be refused.
  if (Number(failed ?? 0) > requests / 100) throw new Error(`${nginx.url}: ${failed} of ${requests} failed`);
  return {
    requests,
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    cpuUs: (cpuNs() - before) / requests / 1000,
    p99Ms: milliseconds(/99%\s+([\d.]+)(us|ms|s)/.exec(stdout)),
  };
}

function milliseconds(found: RegExpExecArray | null): number {
  const factor = { us: 0.001, ms: 1, s: 1000 }[found?.[2] ?? ""] ?? Number.NaN;
  return Number(found?.[1]) * factor;
}

async function measureAll(sides: [SideName, NginxSide][]): Promise<Round[]> {
  const rounds: Round[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const measured: Round = {};
    for (const [name, side] of sides) {
      // Idle leases were returned: measure after they were granted again.
      await measure(side);
      measured[name] = await measure(side);
    }
    // The first round is the warm-up.
    if (round > 0) rounds.push(measured);
  }
  return rounds;
}

/** Decisions made from the lease ÷ all decisions, from the counters of the node. */
async function hitRatio({ nginx }: NginxSide): Promise<number> {
  const text = await (await request(`${nginx.statusUrl}/metrics`)).body.text();
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\{.*\\} (\\d+)$`, "gm"))].reduce((all, [, count]) => all + Number(count), 0);
  const hits = sum("ratelimit_l3_hits_total");
  return hits / (hits + sum("ratelimit_l3_misses_total"));
}

/** Growth of the memory of the workers in KiB over many requests, after a warm-up with a tenth of them. */
async function memoryGrowth(side: NginxSide): Promise<number> {
  const { perSecond } = await measure(side);
  const seconds = Math.max(Math.ceil(MEMORY_REQUESTS / perSecond), 2);
  await measure(side, Math.max(Math.ceil(seconds / 10), 1));
  const before = side.memoryKib();
  await measure(side, seconds);
  return side.memoryKib() - before;
}

export async function nginx(): Promise<Result[]> {
  const { sides, stop } = await startSides([...PROXIES, ...ANSWERERS, ...PROBED]);
  try {
    const compared = [...PROXIES, ...ANSWERERS].map((name): [SideName, NginxSide] => [name, sides.get(name)!]);
    const rounds = await measureAll(compared);
    const of = (read: (round: Round) => number) => median(rounds.map(read));
    const speed = (a: SideName, b: SideName) => of((round) => round[a]!.perSecond / round[b]!.perSecond);
    const cpu = (a: SideName, b: SideName) => of((round) => round[a]!.cpuUs / round[b]!.cpuUs);
    const growth = await memoryGrowth(sides.get("decision")!);
    const send = async (side: NginxSide, seconds: number) => (await measure(side, seconds)).requests;
    const lua = await luaResults(sides.get("probed-tollgate")!, sides.get("probed-handlers")!, send);
    return [
      result("nginx-tollgate", speed("tollgate", "bare"), "all headers ÷ bare nginx, requests/s", atLeast(0.75)),
      result("nginx-ietf-headers", speed("ietf-headers", "bare"), "IETF headers ÷ bare, requests/s", atLeast(0.78)),
      result("nginx-no-headers", speed("no-headers", "bare"), "no headers ÷ bare, requests/s", atLeast(0.8)),
      result("nginx-tollgate-cpu", cpu("tollgate", "bare"), "all headers ÷ bare, CPU per request", noBudget),
      result("nginx-redis-lua", speed("tollgate", "redis-lua"), "tollgate ÷ Redis per request, requests/s", noBudget),
      result("nginx-redis-lua-cpu", cpu("redis-lua", "bare"), "Redis per request ÷ bare, CPU per request", noBudget),
      result("nginx-handlers", speed("handlers", "bare"), "empty Lua handlers ÷ bare nginx, requests/s", noBudget),
      result("nginx-handlers-cpu", cpu("handlers", "bare"), "empty Lua handlers ÷ bare, CPU per request", noBudget),
      result("nginx-headers", speed("headers", "bare"), "and five constant headers ÷ bare nginx, requests/s", noBudget),
      result(
        "nginx-headers-cpu",
        cpu("headers", "bare"),
        "and five constant headers ÷ bare, CPU per request",
        noBudget,
      ),
      result("nginx-bare-redis", speed("bare", "redis-lua"), "bare nginx ÷ Redis per request, requests/s", noBudget),
      result("nginx-limit-req", speed("limit-req", "bare"), "limit_req ÷ bare nginx, requests/s", noBudget),
      result("nginx-limit-req-cpu", cpu("limit-req", "bare"), "limit_req ÷ bare, CPU per request", noBudget),
      ...compared.flatMap(([name]) => [
        result(
          `nginx-${name}-per-second`,
          of((round) => round[name]!.perSecond),
          "requests/s",
          noBudget,
        ),
        result(
          `nginx-${name}-cpu-us`,
          of((round) => round[name]!.cpuUs),
          "µs of CPU per request",
          noBudget,
        ),
      ]),
      result(
        "nginx-decision",
        of((round) => round.decision!.perSecond),
        "decisions/s, without a backend",
        atLeast(50_000),
      ),
      result(
        "nginx-decision-p99",
        of((round) => round.decision!.p99Ms),
        "ms",
        below(10),
      ),
      result("nginx-decision-return", speed("decision", "return-200"), "÷ bare `return 200`, requests/s", noBudget),
      result("nginx-l3-hits", await hitRatio(sides.get("tollgate")!), "decided from the lease ÷ all", atLeast(0.95)),
      ...lua,
      result("nginx-memory", growth, `KiB more over ${MEMORY_REQUESTS} requests, both workers`, below(4096)),
    ];
  } finally {
    await stop();
  }
}
