/** Measures the Rate Limit Service, and the same decisions behind a grpc-js server, with the same load. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { atLeast, noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";
import { cpuNs } from "./support/cpu-time.js";
import { callFor } from "./support/rls-load.js";

const ROUNDS = 5;
const MILLISECONDS = 2_000;
const IN_FLIGHT = 100;

async function start(kind: string) {
  const script = new URL("rls-side.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, ["--import", "tsx", script, kind], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return { pid: child.pid ?? 0, port: Number(line.toString()), stop: () => child.kill("SIGKILL") };
}

async function measure({ pid, port }: { pid: number; port: number }) {
  const before = cpuNs([pid]);
  const calls = await callFor(port, MILLISECONDS, IN_FLIGHT);
  return { perSecond: (calls / MILLISECONDS) * 1000, cpuUs: (cpuNs([pid]) - before) / calls / 1000 };
}

export async function rls(): Promise<Result[]> {
  const [own, peer] = [await start("own"), await start("grpc-js")];
  try {
    const pairs = await alternate(
      ROUNDS,
      () => measure(own),
      () => measure(peer),
    );
    const of = (value: (pair: (typeof pairs)[number]) => number) => median(pairs.map(value));
    return [
      result(
        "rls-grpc-js",
        of(([a, b]) => a.perSecond / b.perSecond),
        "÷ @grpc/grpc-js, calls/s",
        atLeast(1.25),
      ),
      result(
        "rls-per-second",
        of(([a]) => a.perSecond),
        "calls/s",
        noBudget,
      ),
      result(
        "rls-cpu",
        of(([a]) => a.cpuUs),
        "µs of CPU per call",
        noBudget,
      ),
      result(
        "rls-grpc-js-per-second",
        of(([, b]) => b.perSecond),
        "calls/s",
        noBudget,
      ),
      result(
        "rls-grpc-js-cpu",
        of(([, b]) => b.cpuUs),
        "µs of CPU per call",
        noBudget,
      ),
    ];
  } finally {
    own.stop();
    peer.stop();
  }
}
