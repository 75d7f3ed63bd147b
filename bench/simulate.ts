/** Measures `tollgate simulate` on a generated log of a million lines: duration and memory growth. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromRoot } from "../build/paths.js";
import { envoyLine, type GeneratedLog, generateRequests, writeLog } from "../test/support/generated-log.js";
import { below, type Result, result } from "./results.js";

const LINES = 1_000_000;
/** For 1,000,000 lines in twenty minutes: some apps are never refused, some at times, one always. */
const LOG: GeneratedLog = {
  requests: LINES,
  seconds: 1_200,
  apps: [
    ["default", 30],
    ["video-service", 30],
    ["photos", 20],
    ["search", 15],
    ["tiny", 5],
  ],
};
const CONFIG = `
apps:
  default: { guaranteed: 1000, burst: 2000 }
  video-service: { guaranteed: 10000, burst: 20000, priority: 1 }
  photos: { guaranteed: 500, burst: 1000 }
  search: { guaranteed: 2000, burst: 3000 }
  tiny: { guaranteed: 10, burst: 20 }
`;

function* lines(): Generator<string> {
  for (const one of generateRequests(LOG)) yield envoyLine(one);
}

interface Run {
  seconds: number;
  /** Resident memory in MiB, by the share of the log that was read. */
  residentAt(part: number): number;
}

/** The program reports its progress on stderr; its memory is read at each report. */
async function simulateOnce(log: string, config: string): Promise<Run> {
  const args = [fromRoot("dist/cli/main.js"), "simulate", log, "--config", config];
  const started = performance.now();
  const child = spawn(process.execPath, [...args, "--app-from", "field=authority", "--progress", "--json"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const samples: { part: number; mib: number }[] = [];
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    const part = Number(/([0-9.]+) %/.exec(chunk.toString())?.[1]) / 100;
    if (Number.isFinite(part)) samples.push({ part, mib: residentMib(child.pid ?? 0) });
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  const seconds = (performance.now() - started) / 1000;
  const { log: read } = JSON.parse(stdout) as { log: { requests: number } };
  if (code !== 0 || read.requests !== LINES)
    throw new Error(`simulate ended with ${code} after ${read.requests} requests`);
  const nearest = (part: number) =>
    samples.reduce((a, b) => (Math.abs(b.part - part) < Math.abs(a.part - part) ? b : a)).mib;
  return { seconds, residentAt: nearest };
}

function residentMib(pid: number): number {
  return Number(/VmRSS:\s+([0-9]+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

export async function simulate(): Promise<Result[]> {
  const directory = mkdtempSync(join(tmpdir(), "tollgate-bench-"));
  try {
    const [log, config] = [join(directory, "access.log"), join(directory, "gateway.yaml")];
    writeFileSync(config, CONFIG);
    await writeLog(log, lines());
    const { seconds, residentAt } = await simulateOnce(log, config);
    return [
      result("simulate", seconds, "s for 1,000,000 lines", below(10)),
      result("simulate-memory", residentAt(1) - residentAt(0.2), "MiB more at the end than at 20 %", below(50)),
    ];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
