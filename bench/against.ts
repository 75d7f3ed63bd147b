/**
 * `make bench-against REV=<commit>`: compares this tree with an earlier commit on nginx, the Node gateway, leases and the
 * grant function.
 *
 * Each round starts new processes of both trees, one after the other, and measures each once. The order alternates, so that
 * other load and the state of the machine affect both alike. The ratio is the median over the rounds, and the spread is the range
 * of the middle half of them: a difference within the spread is noise.
 */
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { fromRoot } from "../build/paths.js";
import { functionName } from "../src/store/function-names.js";
import { startRedis } from "../test/support/redis-server.js";
import { buildRelease } from "../test/support/release-build.js";
import { measure as measureGateway, startSide } from "./gateway.js";
import { measure as measureNginx } from "./nginx.js";
import { median } from "./rounds.js";
import { encodeCommand, openPipeline } from "./support/pipeline.js";

const ROUNDS = 9;
const GRANT_CALLS = 20_000;

/** Values of one measurement by name. For all of them, less is better. */
type Sample = Record<string, number>;
type Measure = (tree: string) => Promise<Sample>;

const parts: Record<string, Measure> = { nginx, gateway, leases, grant };

const from = (tree: string, file: string) => import(pathToFileURL(`${tree}/${file}`).href);

/** µs of CPU per request: proxied, and for the decision alone. */
async function nginx(tree: string): Promise<Sample> {
  const { startSides } = (await from(tree, "bench/nginx-sides.ts")) as typeof import("./nginx-sides.js");
  const { sides, stop } = await startSides(["tollgate", "decision"]);
  try {
    const sample: Sample = {};
    for (const name of ["tollgate", "decision"] as const) {
      const side = sides.get(name)!;
      await measureNginx(side, 2);
      const { cpuUs, perSecond } = await measureNginx(side, 3);
      sample[`${name}, CPU`] = cpuUs;
      sample[`${name}, time`] = 1e6 / perSecond;
    }
    return sample;
  } finally {
    await stop();
  }
}

async function gateway(tree: string): Promise<Sample> {
  const backend = await startSide("backend");
  const side = await startSide("gateway-limiting", backend.port, `${tree}/bench/gateway-side.ts`);
  try {
    await measureGateway(side);
    const { perSecond, cpu } = await measureGateway(side);
    return { "limiting, CPU": cpu, "limiting, time": 1e6 / perSecond };
  } finally {
    for (const { process: child } of [side, backend]) child.kill("SIGKILL");
  }
}

/** µs of Redis CPU per request of many apps on many nodes. An app with few requests is reported every 30 s. */
async function leases(tree: string): Promise<Sample> {
  const { measurePoint } = (await from(tree, "bench/support/fleet.ts")) as typeof import("./support/fleet.js");
  const limits = { guaranteed: 100_000, burst: 1_000_000 };
  const times = { warmUpSeconds: 32, seconds: 30 };
  const { redisUsPerRequest } = await measurePoint({ nodes: 10, apps: 1_000, perPair: 0.5, limits, ...times });
  return { "10 nodes × 1,000 apps, Redis CPU": redisUsPerRequest };
}

/** µs per call of the grant function in Redis. */
async function grant(tree: string): Promise<Sample> {
  const { steadyGrant } = (await from(tree, "bench/grant-calls.ts")) as typeof import("./grant-calls.js");
  const { loadLibrary } = (await from(
    tree,
    "src/store/function-library.ts",
  )) as typeof import("../src/store/function-library.js");
  const library = loadLibrary();
  const server = await startRedis();
  try {
    await server.command("FUNCTION", "LOAD", library.source);
    const pipeline = await openPipeline(server.port);
    const sample: Sample = {};
    for (const apps of [1, 10]) {
      const send = async (first: number, calls: number) => {
        const commands = Array.from({ length: calls }, (_, i) => {
          const { keys, args } = steadyGrant(`against-${apps}`, apps, first + i);
          return encodeCommand(["FCALL", functionName(library.name, "grant"), keys.length, ...keys, ...args]);
        });
        const { ms, replies } = await pipeline.send(Buffer.concat(commands));
        if (/(^|\r\n)-/.test(replies.toString("latin1"))) throw new Error(`${tree}: a call failed`);
        return (ms * 1000) / calls;
      };
      const calls = GRANT_CALLS / apps;
      await send(1, calls / 10);
      // A new store looks like one after an outage, for whose ten seconds grants do more.
      await server.command("HSET", steadyGrant(`against-${apps}`, apps, 1).keys[0]!, "outage_to", "1");
      sample[`${apps} apps, time`] = await send(calls / 10 + 1, calls);
    }
    pipeline.close();
    return sample;
  } finally {
    await server.stop();
  }
}

const two = (value: number) => value.toFixed(value < 10 ? 3 : 1);

async function main([revision = "", ...only]: string[]): Promise<number> {
  const unknown = only.find((name) => parts[name] === undefined);
  if (revision === "" || unknown !== undefined) {
    console.error(`Usage: make bench-against REV=<commit> [ONLY="${Object.keys(parts).join(" ")}"]`);
    return 2;
  }
  execFileSync(fromRoot("build/ensure-tools.sh"), ["wrk", "lua-nginx-redis"], { stdio: "inherit" });
  const trees = { before: buildRelease(revision), now: fromRoot(".") };
  console.log(`| | ${revision} | now | now ÷ ${revision} | middle half |\n| --- | --- | --- | --- | --- |`);
  for (const [part, measure] of Object.entries(parts).filter(([name]) => only.length === 0 || only.includes(name))) {
    const rounds: { before: Sample; now: Sample }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const samples: Partial<Record<keyof typeof trees, Sample>> = {};
      const order = round % 2 === 0 ? (["before", "now"] as const) : (["now", "before"] as const);
      for (const side of order) samples[side] = await measure(trees[side]);
      rounds.push(samples as (typeof rounds)[number]);
    }
    for (const name of Object.keys(rounds[0]!.now)) {
      const of = (side: keyof typeof trees) => median(rounds.map((round) => round[side][name]!));
      const ratios = rounds.map(({ before, now }) => now[name]! / before[name]!).sort((a, b) => a - b);
      const quarter = Math.floor(ROUNDS / 4);
      const spread = `${two(ratios[quarter]!)} to ${two(ratios[ROUNDS - 1 - quarter]!)}`;
      console.log(
        `| ${part}: ${name} (µs) | ${two(of("before"))} | ${two(of("now"))} | ${two(median(ratios))} | ${spread} |`,
      );
    }
  }
  return 0;
}

process.exitCode = await main(process.argv.slice(2));
