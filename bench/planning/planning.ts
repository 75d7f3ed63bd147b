/** What primaries have to carry, from measured unit costs and a simulation. Writes docs/PLANNING.md. */
import { writeFileSync } from "node:fs";
import { fromRoot } from "../../build/paths.js";
import { atLeast, atMost, noBudget, type Result, result } from "../results.js";
import { callsOnShard, entriesPerPair, type NodeBehaviour } from "./model.js";
import { type Check, planningPage } from "./page.js";
import { simulateNode } from "./simulated.js";
import { measureUnitCosts } from "./unit-costs.js";

const CURVE = [
  { apps: 200, perPair: 0.0001 },
  { apps: 100, perPair: 0.001 },
  { apps: 100, perPair: 0.01 },
  { apps: 100, perPair: 0.1 },
  { apps: 20, perPair: 1 },
  { apps: 4, perPair: 10 },
  { apps: 1, perPair: 100 },
];
const CHECKED = [
  { apps: 100, perPair: 0.1, shards: 1 },
  { apps: 100, perPair: 0.1, shards: 16 },
  { apps: 1_000, perPair: 0.1, shards: 1 },
  { apps: 1_000, perPair: 0.1, shards: 16 },
  { apps: 1_000, perPair: 0.1, shards: 64 },
  { apps: 5_000, perPair: 0.01, shards: 16 },
];

export async function planning(): Promise<Result[]> {
  const unit = await measureUnitCosts();
  const node = await nodeBehaviour();
  const checks: Check[] = [];
  for (const at of CHECKED) {
    const simulated = (await simulateNode(at)).callsPerSecond;
    checks.push({ ...at, simulated, computed: computedCalls(at, node) });
  }
  writeFileSync(fromRoot("docs/PLANNING.md"), planningPage({ unit, node, checks }));
  const ratios = checks.map(({ simulated, computed }) => simulated / computed);
  return [
    result("planning-us-per-call", unit.usPerCall, "µs of Redis CPU per sync message", noBudget),
    result("planning-us-per-entry", unit.usPerEntry, "µs of Redis CPU per app in a message", noBudget),
    result("planning-formula-most", Math.max(...ratios), "calls, simulated ÷ computed", atMost(1.3)),
    result("planning-formula-least", Math.min(...ratios), "calls, simulated ÷ computed", atLeast(0.75)),
  ];
}

async function nodeBehaviour(): Promise<NodeBehaviour> {
  const curve: NodeBehaviour["curve"] = [];
  for (const at of CURVE) {
    const { entriesPerSecond } = await simulateNode({ ...at, shards: 1 });
    curve.push({ perPair: at.perPair, entriesPerSecond: entriesPerSecond / at.apps });
  }
  const idle = await simulateNode({ apps: 1, perPair: 0.0001, shards: 1 });
  return { curve, heartbeatsPerSecond: idle.callsPerSecond };
}

function computedCalls({ apps, perPair, shards }: (typeof CHECKED)[number], node: NodeBehaviour): number {
  const entries = (apps / shards) * entriesPerPair(node.curve, perPair);
  const { messages, heartbeats } = callsOnShard(entries, node.heartbeatsPerSecond);
  return (messages + heartbeats) * shards;
}
