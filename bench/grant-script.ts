/** Measures the generated grant script against the one written by hand, in a real Redis. */
import { readFileSync } from "node:fs";
import { loadScripts } from "../src/store/script-files.js";
import { type RedisServer, startRedis } from "../test/support/redis-server.js";
import { steadyGrant, WANT } from "./grant-calls.js";
import { compareTwins } from "./grant-twins.js";
import { atLeast, noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";
import { encodeCommand, openPipeline, type Pipeline } from "./support/pipeline.js";

const ROUNDS = 31;
/** Short rounds, and many of them: a disturbance then spoils a few pairs and not the median. */
const SHAPES = [
  { apps: 1, calls: 2000, suffix: "" },
  { apps: 10, calls: 350, suffix: "-10-apps" },
];
/** Every way through the script that the comparison must have taken to count. */
const CODES = [
  ...["ok", "quota_exhausted", "cluster_exhausted", "cost_exceeds_capacity", "emergency_blocked"],
  ...["stale_message", "epoch_closed", "invalid_argument"],
];

interface Side {
  sha1: string;
  cluster: string;
  seq: number;
}

interface Round {
  callsPerSecond: number;
  usecPerCall: number;
}

export async function grantScript(): Promise<Result[]> {
  const generated = loadScripts().get("grant")!.source;
  const byHand = readFileSync(new URL("grant-by-hand.lua", import.meta.url), "utf8");
  const server = await startRedis();
  try {
    await refuseIfDifferent(server, generated, byHand);
    const pipeline = await openPipeline(server.port);
    const results: Result[] = [];
    for (const { apps, calls, suffix } of SHAPES) {
      const a = await load(server, generated, `generated-${apps}`);
      const b = await load(server, byHand, `by-hand-${apps}`);
      const pairs = await alternate(
        ROUNDS,
        () => measure(server, pipeline, a, apps, calls),
        () => measure(server, pipeline, b, apps, calls),
      );
      const speed = median(pairs.map(([ours, theirs]) => ours.callsPerSecond / theirs.callsPerSecond));
      const cpu = median(pairs.map(([ours, theirs]) => theirs.usecPerCall / ours.usecPerCall));
      results.push(result(`grant-script${suffix}`, speed, "generated ÷ by hand, calls/s", atLeast(0.85)));
      results.push(result(`grant-script-cpu${suffix}`, cpu, "by hand ÷ generated, server µs/call", noBudget));
    }
    pipeline.close();
    return results;
  } finally {
    await server.stop();
  }
}

async function refuseIfDifferent(server: RedisServer, generated: string, byHand: string): Promise<void> {
  const codes = await compareTwins(server, generated, byHand);
  const missed = CODES.filter((code) => !codes.has(code));
  if (missed.length > 0) throw new Error(`the comparison of the grant scripts never met ${missed.join(", ")}`);
}

async function load(server: RedisServer, source: string, cluster: string): Promise<Side> {
  return { sha1: String(await server.command("SCRIPT", "LOAD", source)), cluster, seq: 0 };
}

async function measure(server: RedisServer, pipeline: Pipeline, side: Side, apps: number, calls: number) {
  const commands: Buffer[] = [];
  for (let i = 0; i < calls; i++) {
    side.seq += 1;
    const { keys, args } = steadyGrant(side.cluster, apps, side.seq);
    commands.push(encodeCommand(["EVALSHA", side.sha1, keys.length, ...keys, ...args]));
  }
  const batch = Buffer.concat(commands);
  await server.command("CONFIG", "RESETSTAT");
  const { ms, replies } = await pipeline.send(batch);
  const { calls: ran, usec } = await evalshaStats(server);
  if (ran !== calls) throw new Error(`${calls} scripts were sent, ${ran} ran`);
  // A refusal, or a script that failed, would be measured as well: each app of the last reply was given all it wanted.
  const last = `$2\r\nok\r\n:${WANT * side.seq}\r\n`;
  const text = replies.toString("latin1");
  if (text.includes("\r\n-") || text.slice(text.lastIndexOf("*")).split(last).length !== apps + 1) {
    throw new Error(`the grant script did not grant: ${JSON.stringify(text.slice(-300))}`);
  }
  const round: Round = { callsPerSecond: (calls * 1000) / ms, usecPerCall: usec / ran };
  return round;
}

async function evalshaStats(server: RedisServer): Promise<{ calls: number; usec: number }> {
  const info = String(await server.command("INFO", "commandstats"));
  const found = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(info);
  if (found === null) throw new Error("Redis counted no EVALSHA");
  return { calls: Number(found[1]), usec: Number(found[2]) };
}
