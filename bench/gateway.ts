/** Compares the Node gateway with and without the limiter, and with other Node proxies, on one backend with wrk. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { atLeast, noBudget, type Result, result } from "./results.js";
import { median } from "./rounds.js";

const ROUNDS = 5;
const SECONDS = 2;
const CONNECTIONS = 64;
const PEERS = ["http-proxy-3", "fastify-http-proxy"];
const SIDES = ["gateway-limiting", "gateway-open", ...PEERS];
const run = promisify(execFile);

export interface Side {
  process: ChildProcess;
  port: number;
}

const SCRIPT = new URL("gateway-side.ts", import.meta.url).pathname;

export async function startSide(kind: string, backendPort = 0, script = SCRIPT): Promise<Side> {
  const child = spawn(process.execPath, ["--import", "tsx", script, kind, String(backendPort)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout!, "data")) as [Buffer];
  return { process: child, port: Number(line.toString()) };
}

/** Requests per second, and CPU milliseconds of the server per thousand of them. */
export async function measure({ process: { pid }, port }: Side): Promise<{ perSecond: number; cpu: number }> {
  const cpuMs = async () => {
    const { stdout } = await run("cat", [`/proc/${pid}/stat`]);
    const fields = stdout.slice(stdout.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  };
  const before = await cpuMs();
  const args = ["-t1", `-c${CONNECTIONS}`, `-d${SECONDS}s`, `http://127.0.0.1:${port}/`];
  const { stdout } = await run("wrk", args);
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  const failed = /Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)/.exec(stdout)?.[0];
  if (failed !== undefined) throw new Error(`port ${port}: ${failed}`);
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    cpu: ((await cpuMs()) - before) / (requests / 1000),
  };
}

export async function gateway(): Promise<Result[]> {
  const backend = await startSide("backend");
  const sides = new Map<string, Side>();
  try {
    for (const kind of SIDES) sides.set(kind, await startSide(kind, backend.port));
    const rounds: Record<string, { perSecond: number; cpu: number }>[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const measured: (typeof rounds)[number] = {};
      for (const [kind, side] of sides) measured[kind] = await measure(side);
      // The first round warms up.
      if (round > 0) rounds.push(measured);
    }
    const ratio = (of: (round: (typeof rounds)[number]) => number) => median(rounds.map(of));
    const best = (round: (typeof rounds)[number]) => Math.max(...PEERS.map((kind) => round[kind]!.perSecond));
    return [
      result(
        "gateway-limiter",
        ratio((round) => round["gateway-limiting"]!.perSecond / round["gateway-open"]!.perSecond),
        "with limiter ÷ without, requests/s",
        atLeast(0.95),
      ),
      result(
        "gateway-peers",
        ratio((round) => round["gateway-limiting"]!.perSecond / best(round)),
        "÷ the best of http-proxy-3 and @fastify/http-proxy, requests/s",
        atLeast(1.2),
      ),
      ...SIDES.map((kind) =>
        result(
          `${kind}-per-second`,
          ratio((round) => round[kind]!.perSecond),
          "requests/s",
          noBudget,
        ),
      ),
      result(
        "gateway-limiter-cpu",
        ratio((round) => round["gateway-limiting"]!.cpu / round["gateway-open"]!.cpu),
        "with limiter ÷ without, CPU per request",
        noBudget,
      ),
    ];
  } finally {
    for (const { process: child } of [...sides.values(), backend]) child.kill("SIGKILL");
  }
}
