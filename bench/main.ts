/** `make bench`: measures, prints a table, writes `bench/results.json`. Fails when a budget does not hold. */
import { writeFileSync } from "node:fs";
import { embeddedGrants } from "./embedded-grants.js";
import { envoy } from "./envoy.js";
import { gateway } from "./gateway.js";
import { grant } from "./grant.js";
import { l3TakeLuajit, l3TakeNode } from "./l3-take.js";
import { limiterCheck } from "./limiter-check.js";
import { metricsCost } from "./metrics-cost.js";
import { nginx } from "./nginx.js";
import { type Result, resultsJson, resultsTable } from "./results.js";
import { rls } from "./rls.js";
import { simulate } from "./simulate.js";
import { storeCalls } from "./store-calls.js";
import { websockets } from "./websockets.js";

const parts: Record<string, () => Promise<Result[]>> = {
  grant,
  "embedded-grants": embeddedGrants,
  "l3-take-node": l3TakeNode,
  "l3-take-luajit": l3TakeLuajit,
  "store-calls": storeCalls,
  "limiter-check": limiterCheck,
  gateway,
  "metrics-cost": metricsCost,
  websockets,
  nginx,
  rls,
  envoy,
  simulate,
};

async function main(only: string | undefined): Promise<number> {
  const names = Object.keys(parts);
  if (only !== undefined && !names.includes(only)) {
    console.error(`There is no part "${only}" of the bench. The parts are: ${names.join(", ")}`);
    return 2;
  }
  const results: Result[] = [];
  for (const name of only === undefined ? names : [only]) {
    console.error(`measuring ${name} …`);
    results.push(...(await parts[name]!()));
  }
  writeFileSync(new URL("results.json", import.meta.url), resultsJson(results));
  console.log(resultsTable(results));
  const broken = results.filter((each) => !each.holds);
  for (const each of broken) console.error(`${each.name} is ${each.value}, but should be ${each.budget}`);
  return broken.length > 0 ? 1 : 0;
}

process.exitCode = await main(process.argv[2]);
