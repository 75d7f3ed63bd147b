/** `make fuzz`: runs all targets in turn, or TARGET, for SECONDS each, from SEED. Saves inputs that fail, and exits with 1. */
import { fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cpuMs, residentMb } from "../test/support/process-usage.js";
import type { Progress } from "./child.js";
import type { Failure } from "./loop.js";
import { saveRegression } from "./regressions.js";
import { targets } from "./targets/targets.js";

const child = fileURLToPath(new URL("child.ts", import.meta.url));
const DEFAULT_SECONDS = 60;
const HEAP_MB = 512;
/** Of the whole process. */
const MOST_MB = 1_200;
/** Without progress for this much CPU time, an input is considered endless; so is one that waits as long as `STUCK_MS`. */
const ENDLESS_CPU_MS = 10_000;
const STUCK_MS = 120_000;
const WATCH_MS = 200;

interface Run {
  inputs: number;
  failures: Failure[];
}

function run(name: string, seed: number, seconds: number): Promise<Run> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-fuzz-"));
  const file = join(dir, "input");
  const running = fork(child, [name, String(seed), String(seconds), file], {
    execArgv: ["--import", "tsx", `--max-old-space-size=${HEAP_MB}`],
  });
  const pid = running.pid!;
  let last: Progress = { inputs: 0, failures: [], isLast: false };
  let [progressAt, cpuAt] = [Date.now(), 0];
  let killedFor: string | undefined;
  running.on("message", (progress: Progress) => {
    if (progress.inputs > last.inputs || progress.isLast) [progressAt, cpuAt] = [Date.now(), usage(() => cpuMs(pid))];
    last = progress;
  });
  const watch = setInterval(() => {
    if (usage(() => residentMb(pid)) > MOST_MB) killedFor = `more than ${MOST_MB} MB`;
    else if (last.inputs > 0 && usage(() => cpuMs(pid)) - cpuAt > ENDLESS_CPU_MS) killedFor = "endless";
    else if (Date.now() - progressAt > STUCK_MS) killedFor = "no progress";
    if (killedFor !== undefined) running.kill("SIGKILL");
  }, WATCH_MS);
  return new Promise((resolve) => {
    running.on("exit", (code, signal) => {
      clearInterval(watch);
      const failures: Failure[] = last.failures.map(({ input, reason }) => ({
        input: Buffer.from(input, "base64"),
        reason,
      }));
      if (!last.isLast || code !== 0)
        failures.push({ input: inputIn(file), reason: killedFor ?? `ended with ${signal ?? code}` });
      rmSync(dir, { recursive: true });
      resolve({ inputs: last.inputs, failures });
    });
  });
}

/** 0 if the process has just ended. */
function usage(read: () => number): number {
  try {
    return read();
  } catch {
    return 0;
  }
}

function inputIn(file: string): Buffer {
  const bytes = readFileSync(file);
  return bytes.length < 4 ? bytes : bytes.subarray(4, 4 + bytes.readUInt32BE());
}

const { TARGET = "", SECONDS = "", SEED = "" } = process.env;
const names = TARGET === "" ? Object.keys(targets) : [TARGET];
const seconds = SECONDS === "" ? DEFAULT_SECONDS : Number(SECONDS);
const seed = SEED === "" ? Math.floor(Math.random() * 2 ** 31) : Number(SEED);
if (!names.every((name) => Object.hasOwn(targets, name))) {
  console.error(`TARGET must be one of ${Object.keys(targets).join(", ")}`);
  process.exit(2);
}
if (!(seconds > 0) || !Number.isInteger(seed)) {
  console.error("SECONDS must be a positive number, SEED a whole number");
  process.exit(2);
}
console.log(`SEED=${seed} SECONDS=${seconds}`);
for (const name of names) {
  const { inputs, failures } = await run(name, seed, seconds);
  console.log(`${name}: ${inputs} inputs, ${failures.length} failures`);
  for (const { input, reason } of failures) {
    console.log(`  ${saveRegression(name, input)} (${input.length} bytes): ${reason}`);
    process.exitCode = 1;
  }
}
