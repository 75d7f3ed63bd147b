/** Shards on a real Redis Cluster: how evenly primaries are loaded, and what several shards cost a node. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type RedisCluster, startRedisCluster } from "../test/support/redis-cluster.js";
import { pause } from "../test/support/wait-for.js";
import { atMost, noBudget, type Result, result } from "./results.js";
import { median } from "./rounds.js";
import { shardsKilled } from "./shards-killed.js";
import { cpuNs } from "./support/cpu-time.js";
import { startSide } from "./support/fleet.js";

const NODES = 10;
const APPS = 1_000;
/** Not reached. */
const AMPLE = { guaranteed: 100_000, burst: 1_000_000 };
const PER_PAIR = 0.5;
const TOUCHES_PER_SECOND = 5_000;
/** Longer than the report interval. */
const SECONDS = 35;
const IDLE_SECONDS = 5;

export async function shards(): Promise<Result[]> {
  const results: Result[] = [];
  for (const primaries of [3, 6]) {
    const cluster = await startRedisCluster({ primaries, nodeTimeoutMs: 15_000 });
    try {
      results.push(result(`shards-${primaries}-primaries`, await busiest(cluster), BUSIEST, atMost(1.3)));
      if (primaries === 3) results.push(...(await nodeCpu(cluster.url)));
    } finally {
      await cluster.stop();
    }
  }
  results.push(...(await shardsKilled()));
  return results;
}

const BUSIEST = "CPU of busiest primary ÷ mean, 10 nodes × 1,000 apps";

/** CPU of the busiest primary ÷ the mean, less what the empty cluster uses. */
async function busiest(cluster: RedisCluster): Promise<number> {
  const primaries = await cluster.primaries();
  const cpuMs = () => primaries.map(({ pid }) => cpuNs([pid]) / 1e6);
  const started = cpuMs();
  await pause(IDLE_SECONDS * 1_000);
  const perSecond = cpuMs().map((ms, i) => (ms - started[i]!) / IDLE_SECONDS);
  const side = await startSide();
  try {
    const nodes = Array.from({ length: NODES }, (_, i) => `node-${i}`);
    await side.tell({ do: "open", url: cluster.url, nodes, apps: APPS, limits: AMPLE });
    const from = performance.now();
    const before = cpuMs();
    await side.tell({ do: "touch", perSecond: TOUCHES_PER_SECOND });
    await side.tell({ do: "load", perPair: PER_PAIR, seconds: SECONDS });
    const seconds = (performance.now() - from) / 1_000;
    const used = cpuMs().map((ms, i) => ms - before[i]! - perSecond[i]! * seconds);
    await side.tell({ do: "close" });
    console.error(`  CPU-ms of ${primaries.length} primaries: ${used.map((ms) => Math.round(ms)).join(", ")}`);
    return Math.max(...used) / (used.reduce((sum, ms) => sum + ms, 0) / used.length);
  } finally {
    side.end();
  }
}

const ROUNDS = 3;

/** CPU of a process for syncs of one node with 100 apps: 16 shards ÷ one. */
async function nodeCpu(url: string): Promise<Result[]> {
  const ratios: number[] = [];
  const costs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const one = await syncCost(url, 1);
    const sixteen = await syncCost(url, 16);
    console.error(`  CPU per ledger entry: ${one} µs with 1 shard, ${sixteen} µs with 16`);
    ratios.push(sixteen / one);
    costs.push(one);
  }
  return [
    result("shards-node-cpu", median(ratios), "CPU of a node syncing 100 apps, 16 shards ÷ 1", atMost(1.3)),
    result("shards-node-us-per-entry", median(costs), "µs of CPU per ledger entry, 1 shard", noBudget),
  ];
}

/** Microseconds of CPU per app in a message. */
async function syncCost(url: string, count: number): Promise<number> {
  const script = new URL("shards-side.ts", import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", script, url, String(count)]);
  return Number(stdout);
}
