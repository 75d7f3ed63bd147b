/** How the cost of a request grows with apps, nodes and requests per second. Writes docs/GROWTH.md and docs/growth.svg. */
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { fromRoot } from "../../build/paths.js";
import { atLeast, atMost, type Budget, noBudget, type Result, result } from "../results.js";
import { heapWith, type Measured, measurePoint, type Point } from "../support/fleet.js";
import { growthChart } from "./chart.js";
import { growthPage, type MemoryPerApp } from "./page.js";
import { BATCHES, LEAST_CARRIED, MEMORY_APPS, MEMORY_LIMITS, type MeasuredSweep, SWEEPS } from "./sweeps.js";

/** Redis CPU of two points of the same cost differs by this factor on a busy machine. */
const NO_GROWTH = atMost(1.25);

const BUDGETS: Partial<Record<string, { entries: Budget; local: Budget }>> = {
  "growth-10x1000x0.5": { entries: atMost(0.1), local: atLeast(0.95) },
  "growth-2x1x5000": { entries: atMost(0.002), local: atLeast(0.95) },
};

export async function growth(): Promise<Result[]> {
  const load = loadavg()[0]!;
  const known = new Map<Point, Measured>();
  for (const batch of BATCHES) {
    const measured = await Promise.all(batch.map(measurePoint));
    for (const [i, point] of batch.entries()) {
      known.set(point, measured[i]!);
      console.error(`  ${nameOf(point)}: ${JSON.stringify(measured[i])}`);
    }
  }
  const sweeps = SWEEPS.map((sweep) => ({ ...sweep, measured: sweep.points.map((point) => known.get(point)!) }));
  const memory = await memoryPerApp();
  writeFileSync(fromRoot("docs/growth.svg"), growthChart(sweeps));
  writeFileSync(fromRoot("docs/GROWTH.md"), growthPage(sweeps, memory, load));
  return [
    ...[...known].flatMap(([point, measured]) => resultsOf(nameOf(point), measured)),
    ...sweeps.filter(({ varied }) => varied !== "perPair").flatMap(growthOf),
    ...memory.map(({ apps, bytes }) =>
      result(`growth-memory-${apps}-apps`, bytes / 1_024, "KiB of heap per app on a node", noBudget),
    ),
  ];
}

/** Nodes × apps × requests per second of a pair. */
const nameOf = ({ nodes, apps, perPair }: Point) => `growth-${nodes}x${apps}x${perPair}`;

function resultsOf(name: string, measured: Measured): Result[] {
  const budgets = BUDGETS[name] ?? { entries: noBudget, local: noBudget };
  return [
    result(name, measured.entriesPerRequest, "ledger entries per request", budgets.entries),
    result(`${name}-redis`, measured.redisUsPerRequest, "µs of Redis CPU per request", noBudget),
    result(`${name}-local`, measured.localRatio, "decided locally", budgets.local),
    result(`${name}-p99`, measured.p99Ms, "ms, P99 of decisions", noBudget),
    result(
      `${name}-carried`,
      measured.carried,
      "of the planned requests were sent and decided",
      atLeast(LEAST_CARRIED),
    ),
  ];
}

/** The largest point of a sweep ÷ the smallest. */
function growthOf({ varied, measured }: MeasuredSweep): Result[] {
  const [first, last] = [measured[0]!, measured.at(-1)!];
  const [from, to] = [first, last].map((one) => one.redisUsPerRequest) as [number, number];
  return [
    result(
      `growth-with-${varied}`,
      last.entriesPerRequest / first.entriesPerRequest,
      `most ${varied} ÷ fewest, ledger entries per request`,
      NO_GROWTH,
    ),
    result(`growth-with-${varied}-redis`, to / from, `most ${varied} ÷ fewest, Redis CPU per request`, NO_GROWTH),
  ];
}

async function memoryPerApp(): Promise<MemoryPerApp[]> {
  const one = await heapWith(1, MEMORY_LIMITS);
  const measured: MemoryPerApp[] = [];
  for (const apps of MEMORY_APPS) measured.push({ apps, bytes: ((await heapWith(apps, MEMORY_LIMITS)) - one) / apps });
  return measured;
}
