/** `make soak`: runs all planes under load with random faults for MINUTES, from SEED, and prints a verdict. */
import { writeFileSync } from "node:fs";
import { request } from "undici";
import { fromRoot } from "../build/paths.js";
import { envoyPlane } from "../test/support/envoy-process.js";
import { nginxPlane } from "../test/support/nginx-process.js";
import { createRandom } from "../test/support/random.js";
import { pause } from "../test/support/wait-for.js";
import { faultDurationMs, faults, recordOf } from "./faults.js";
import type { History } from "./history.js";
import { hostileRecord, hostiles } from "./hostile.js";
import { judge } from "./judge.js";
import { readLedgers } from "./ledgers.js";
import { startLoad } from "./load.js";
import { openFiles, startMonitor } from "./monitor.js";
import { summaryOf } from "./summary.js";
import {
  BATCH_THRESHOLD,
  FAIL_OPEN_TOKENS,
  LEASE_S,
  MAX_PER_POD,
  NODES,
  rules,
  startWorld,
  type World,
} from "./world.js";

const { MINUTES = "10", SEED = "" } = process.env;
const minutes = Number(MINUTES);
const seed = SEED === "" ? Math.floor(Math.random() * 2 ** 31) : Number(SEED);
if (!(minutes > 0) || !Number.isInteger(seed)) {
  console.error("MINUTES must be a positive number, SEED a whole number");
  process.exit(2);
}
if (process.getuid?.() !== 0) {
  console.error("The soak test needs root, to create a network namespace.");
  process.exit(2);
}
const QUIET_MS = 4_000;
const HOSTILES_AT_ONCE = 2;
const RESULT = ".cache/soak.json";

async function openSlots({ controlUrls, adminHeaders: headers }: World): Promise<number> {
  const { body } = await request(`${controlUrls()[0]}/admin/ratelimit/connections`, { headers });
  const { pods } = (await body.json()) as { pods: { active?: number; connections?: number }[] };
  return pods.reduce((sum, pod) => sum + (pod.active ?? pod.connections ?? 0), 0);
}

/** Several at the same time, and each one once before any is repeated. */
async function playHostiles(world: World, random: () => number, history: History, now: () => number): Promise<void> {
  let waiting = [...hostiles];
  const next = () => {
    if (waiting.length === 0) waiting = [...hostiles];
    return waiting.splice(Math.floor(random() * waiting.length), 1)[0]!;
  };
  const playOneByOne = async () => {
    while (now() < history.durationMs) {
      const hostile = next();
      const from = now();
      const to = Math.min(from + faultDurationMs(random), history.durationMs);
      console.log(`${(from / 1_000).toFixed(0).padStart(5)} s  ${hostile.name}`);
      await hostile.play({ world, random, isOver: () => now() >= to });
      history.hostile.push(hostileRecord(hostile, from, now()));
    }
  };
  await Promise.all(Array.from({ length: HOSTILES_AT_ONCE }, playOneByOne));
}

async function playFaults(world: World, random: () => number, history: History, now: () => number): Promise<void> {
  let waiting = [...faults];
  await pause(QUIET_MS);
  while (now() < history.durationMs) {
    // Each one once, before any is repeated.
    if (waiting.length === 0) waiting = [...faults];
    const [fault] = waiting.splice(Math.floor(random() * waiting.length), 1);
    const from = now();
    console.log(`${(from / 1_000).toFixed(0).padStart(5)} s  ${fault!.name}`);
    let unavailableTo = 0;
    await fault!.play(world, faultDurationMs(random), () => {
      unavailableTo = now();
    });
    history.faults.push(recordOf(fault!, from, now(), unavailableTo));
    await pause(QUIET_MS + random() * QUIET_MS);
  }
}

// Blocks this process for seconds.
nginxPlane();
envoyPlane();
console.log(`SEED=${seed} MINUTES=${minutes}`);
const world = await startWorld(process.pid % 64);
const started = performance.now();
const now = () => performance.now() - started;
const history: History = {
  ...{
    durationMs: minutes * 60_000,
    rules,
    nodes: NODES,
    failOpenTokens: FAIL_OPEN_TOKENS,
    maxPerPod: MAX_PER_POD,
    slotLeaseMs: LEASE_S * 1_000,
  },
  // On its lease, and spent since its last report.
  unreportedTokens: 2 * BATCH_THRESHOLD,
  ...{ exchanges: [], faults: [], hostile: [], degradedAt: [], sockets: [], socketsOpenedAt: [] },
  ...{ filesAtStart: openFiles(world), filesAtEnd: {} },
  ...{ processes: [], logs: [], buckets: [], slotsAtEnd: 0, ledgers: [], errors: [] },
};
process.on("SIGINT", () => void world.stop().then(() => process.exit(130)));
try {
  const random = createRandom(seed);
  const load = startLoad({
    ...{ world, random: createRandom(seed + 1), now },
    ended: (one) => history.exchanges.push(one),
    socketOpened: () => history.socketsOpenedAt.push(now()),
  });
  const monitor = startMonitor(world, now, history);
  const failed = (error: Error) => history.errors.push(error.stack ?? error.message);
  await Promise.all([
    playFaults(world, random, history, now).catch(failed),
    playHostiles(world, createRandom(seed + 2), history, now).catch(failed),
  ]);
  await load.stop();
  monitor.stop();
  history.durationMs = now();
  await pause(LEASE_S * 1_500);
  history.slotsAtEnd = await openSlots(world);
  history.filesAtEnd = openFiles(world);
  history.ledgers = await readLedgers(world);
  const verdict = judge(history);
  for (const line of summaryOf(history, verdict, load.counts())) console.log(line);
  console.log(`SEED=${seed} MINUTES=${minutes}: ${verdict.passed ? "PASSED" : "FAILED"}`);
  if (!verdict.passed) {
    writeFileSync(fromRoot(RESULT), JSON.stringify(history));
    console.log(`The history is in ${RESULT}.`);
  }
  process.exitCode = verdict.passed ? 0 : 1;
} finally {
  await world.stop();
}
process.exit();
