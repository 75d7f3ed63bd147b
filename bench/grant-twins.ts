/** Shows that two grant scripts are the same: equal replies and equal stored state for the same calls at the same time. */
import { isDeepStrictEqual } from "node:util";
import { appKey, clusterKey, ledgerKey, nodesKey } from "../src/core/keys.js";
import type { RedisServer } from "../test/support/redis-server.js";
import { type Fields, type GrantStep, grantHistory } from "./grant-history.js";

const CLOCK_KEY = "bench:clock";
/** Given to a script after its first line: the time is what the bench says, and can be the same for both. */
const DRIVEN_CLOCK = `local redis = {call = function(name, ...)
  if name ~= "TIME" then return redis.call(name, ...) end
  local now = tonumber(redis.call("GET", "${CLOCK_KEY}"))
  return {string.format("%d", math.floor(now / 1000000)), string.format("%d", now % 1000000)}
end}`;

interface Twin {
  sha1: string;
  cluster: string;
}

/** Throws at the first call that tells the two apart. Answers how often each code and text was met in the replies. */
export async function compareTwins(server: RedisServer, one: string, other: string): Promise<Map<string, number>> {
  const twins: Twin[] = [];
  for (const [cluster, source] of [
    ["one", one],
    ["other", other],
  ] as const) {
    const sha1 = String(await server.command("SCRIPT", "LOAD", withDrivenClock(source)));
    twins.push({ sha1, cluster });
  }
  const codes = new Map<string, number>();
  for (const [index, step] of grantHistory().entries()) {
    await server.command("SET", CLOCK_KEY, step.now);
    const [a, b] = await Promise.all(twins.map((twin) => outcome(server, twin, step)));
    if (!isDeepStrictEqual(a, b)) {
      throw new Error(
        `The hand-written grant script differs from the generated one, so there is nothing to compare.\n` +
          `Call ${index}: ${JSON.stringify(step)}\ngenerated:    ${JSON.stringify(a)}\nhand-written: ${JSON.stringify(b)}`,
      );
    }
    for (const item of a!.reply) if (typeof item === "string") codes.set(item, (codes.get(item) ?? 0) + 1);
  }
  return codes;
}

function withDrivenClock(source: string): string {
  const end = source.indexOf("\n");
  return `${source.slice(0, end)}\n${DRIVEN_CLOCK}\n${source.slice(end + 1)}`;
}

interface Outcome {
  reply: unknown[];
  /** All that a call can change, in an order of its own. */
  state: unknown[];
}

async function outcome(server: RedisServer, twin: Twin, step: GrantStep): Promise<Outcome> {
  const { cluster } = twin;
  const hashes = [clusterKey(cluster), ledgerKey(cluster, step.node), ...step.apps.map((app) => appKey(cluster, app))];
  const edits: [string, Fields | undefined][] = [
    [hashes[0]!, step.editCluster],
    [hashes[1]!, step.editLedger],
  ];
  if (step.forgetLedger) await server.command("DEL", hashes[1]!);
  for (const [key, fields] of edits) {
    if (fields !== undefined) await server.command("HSET", key, ...Object.entries(fields).flat());
  }
  const keys = [hashes[0]!, nodesKey(cluster), ...hashes.slice(1)].slice(0, step.keyCount);
  const [reply, nodes, ...stored] = await Promise.all([
    server.command("EVALSHA", twin.sha1, keys.length, ...keys, ...step.args),
    server.command("ZRANGE", nodesKey(cluster), 0, -1, "WITHSCORES"),
    ...hashes.map((key) => server.command("HGETALL", key)),
  ]);
  if (!Array.isArray(reply)) throw new Error(`the grant script answered ${JSON.stringify(reply)}`);
  return { reply, state: [nodes, ...stored.map(sortedFields)] };
}

/** HGETALL as the connection gives it, a list or an object; Redis keeps the fields in the order they came. */
function sortedFields(hash: unknown): unknown {
  if (!Array.isArray(hash)) return hash;
  const pairs: string[] = [];
  for (let i = 0; i < hash.length; i += 2) pairs.push(`${hash[i]}=${hash[i + 1]}`);
  return pairs.sort();
}
