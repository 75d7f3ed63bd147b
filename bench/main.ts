/**
 * `make bench`: runs the benchmarks, prints a table, writes their sections in docs/reference/performance.md and `bench/results.json`. Fails when a
 * budget is missed.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fromRoot } from "../build/paths.js";
import { dashboard } from "./dashboard.js";
import { embeddedGrants } from "./embedded-grants.js";
import { envoy } from "./envoy.js";
import { gateway } from "./gateway.js";
import { grant } from "./grant.js";
import { growth } from "./growth/growth.js";
import { l3TakeLuajit, l3TakeNode } from "./l3-take.js";
import { leases } from "./leases/leases.js";
import { limiterCheck } from "./limiter-check.js";
import { limits } from "./limits.js";
import { limitsEnvoy, limitsGateway, limitsNginx } from "./limits-planes.js";
import { limitsValues } from "./limits-values.js";
import { metricsCost } from "./metrics-cost.js";
import { nginx } from "./nginx.js";
import { machineText, versionText, writePart } from "./performance-page.js";
import { planning } from "./planning/planning.js";
import { benchPage, type Result, type Runs, resultsTable, runsJson, withRun } from "./results.js";
import { rls } from "./rls.js";
import { shards } from "./shards.js";
import { simulate } from "./simulate.js";
import { slotPrimaries } from "./slot-primaries.js";
import { storeCalls } from "./store-calls.js";
import { storeMemory } from "./store-memory.js";
import { websockets } from "./websockets.js";

interface Part {
  run(): Promise<Result[]>;
  /** Arguments of build/ensure-tools.sh. */
  tools?: string[];
}

const parts: Record<string, Part> = {
  grant: { run: grant },
  "embedded-grants": { run: embeddedGrants },
  "l3-take-node": { run: l3TakeNode },
  "l3-take-luajit": { run: l3TakeLuajit },
  "store-calls": { run: storeCalls },
  "store-memory": { run: storeMemory },
  "limiter-check": { run: limiterCheck },
  gateway: { run: gateway, tools: ["wrk"] },
  "metrics-cost": { run: metricsCost, tools: ["wrk"] },
  websockets: { run: websockets },
  "slot-primaries": { run: slotPrimaries },
  shards: { run: shards },
  nginx: { run: nginx, tools: ["wrk", "lua-nginx-redis"] },
  rls: { run: rls },
  envoy: { run: envoy, tools: ["wrk", "go"] },
  simulate: { run: simulate },
  leases: { run: leases, tools: ["wrk"] },
  growth: { run: growth },
  planning: { run: planning },
  limits: { run: limits },
  dashboard: { run: dashboard },
  "limits-gateway": { run: limitsGateway, tools: ["wrk"] },
  "limits-nginx": { run: limitsNginx, tools: ["wrk"] },
  "limits-envoy": { run: limitsEnvoy, tools: ["wrk"] },
  "limits-values": { run: limitsValues, tools: ["wrk"] },
};

const names = Object.keys(parts);
const RUNS = fromRoot("bench/results.json");

/** After each benchmark, so that a later one that fails loses nothing. */
function save(name: string, results: Result[]): void {
  const before = existsSync(RUNS) ? (JSON.parse(readFileSync(RUNS, "utf8")) as Runs) : {};
  const run = { date: new Date().toISOString().slice(0, 10), machine: machineText(), version: versionText(), results };
  const runs = withRun(before, name, run, names);
  writeFileSync(RUNS, runsJson(runs));
  writePart("bench", benchPage(runs, names));
}

async function main(only: string[]): Promise<number> {
  const unknown = only.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    console.error(`Unknown benchmark "${unknown}". Available: ${names.join(", ")}`);
    return 2;
  }
  const selected = Object.entries(parts).filter(([name]) => only.length === 0 || only.includes(name));
  const tools = new Set(selected.flatMap(([, part]) => part.tools ?? []));
  execFileSync(fromRoot("build/ensure-tools.sh"), [...tools], { stdio: "inherit" });
  const results: Result[] = [];
  for (const [name, part] of selected) {
    console.error(`measuring ${name} …`);
    const measured = await part.run();
    save(name, measured);
    results.push(...measured);
  }
  console.log(resultsTable(results));
  const missed = results.filter((each) => !each.holds);
  for (const each of missed) console.error(`${each.name} is ${each.value}, budget ${each.budget}`);
  return missed.length > 0 ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
