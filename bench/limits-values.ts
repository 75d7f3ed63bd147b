/** A million distinct values of a limit on the gateway, nginx and Envoy: memory, what passes, and keys in the store. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { request } from "undici";
import { findEnvoy } from "../test/support/envoy-binary.js";
import { startSmallBackend } from "../test/support/gateway-process.js";
import { type PlaneKind, type PlaneUnderTest, preparePlane, startPlane } from "../test/support/planes.js";
import { type RedisServer, startRedis } from "../test/support/redis-server.js";
import { atMost, noBudget, type Result, result } from "./results.js";

const run = promisify(execFile);
const CONNECTIONS = 64;
const MOST_VALUES = 10_000;
const VALUES = Number(process.env.LIMITS_BENCH_VALUES ?? 1_000_000);
/** For each plane: on a slow machine fewer values are sent. */
const SECONDS = Number(process.env.LIMITS_BENCH_SECONDS ?? 240);
const ROUND_SECONDS = 5;
/** Values whose requests are counted one by one, before and after all others. */
const SAMPLE = 500;

/** Each request has another user. */
const distinct = (from: number) => `
local at = ${from}
request = function()
  at = at + 1
  return wrk.format("GET", "/", { ["X-App-Id"] = "busy", ["X-User-Id"] = "value-" .. at })
end
`;

const memoryMb = (pid: number) =>
  Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;

async function load(url: string, script: string, from: number) {
  writeFileSync(script, distinct(from));
  const { stdout } = await run("wrk", ["-t1", `-c${CONNECTIONS}`, `-d${ROUND_SECONDS}s`, "-s", script, `${url}/`]);
  const sent = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  return { sent, refused: Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0) };
}

async function passes(url: string, user: string): Promise<boolean> {
  const { statusCode, body } = await request(url, { headers: { "x-app-id": "busy", "x-user-id": user } });
  await body.dump();
  return statusCode === 200;
}

/** Buckets of values, and how many of 1,000 of them would never expire. */
async function keysOf(redis: RedisServer) {
  const keys = Number(await redis.command("DBSIZE"));
  let lasting = 0;
  for (let i = 0; i < 1_000; i++) {
    const key = String(await redis.command("RANDOMKEY"));
    if (key.includes(":app:limit:") && Number(await redis.command("PTTL", key)) < 0) lasting++;
  }
  return { keys, lasting };
}

async function onPlane(kind: PlaneKind): Promise<Result[]> {
  preparePlane(kind);
  const endings: (() => unknown)[] = [];
  const folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"));
  endings.push(() => rmSync(folder, { recursive: true }));
  try {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    const plane = await startPlane(kind, {
      ...{ instances: 1, workers: 1, store: redis.url, backend: backend.target },
      yaml: `
cluster: { capacity: 1000000000, rate: 1000000000 }
rate_limit_values: ${MOST_VALUES}
apps: { busy: { guaranteed: 1000000, burst: 1000000 } }
limits: [{ name: user, key: [user], rate: 1/h, on_store_failure: closed }]
`,
    });
    endings.push(() => plane.stop());
    return await sendValues(kind, plane, redis, join(folder, "distinct.lua"));
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

async function sendValues(
  kind: PlaneKind,
  plane: PlaneUnderTest,
  redis: RedisServer,
  script: string,
): Promise<Result[]> {
  const [instance] = plane.instances as [PlaneUnderTest["instances"][number]];
  const memory = () => instance.workers().reduce((sum, pid) => sum + memoryMb(pid), 0);
  const known: string[] = [];
  for (let i = 0; i < SAMPLE; i++) if (await passes(instance.url, `sample-${i}`)) known.push(`sample-${i}`);
  const before = memory();
  const until = performance.now() + SECONDS * 1000;
  let [sent, refused, most] = [0, 0, 0];
  while (sent < VALUES && performance.now() < until) {
    const round = await load(instance.url, script, sent);
    sent += round.sent;
    refused += round.refused;
    most = Math.max(most, memory());
  }
  let twice = 0;
  for (const user of known) if (await passes(instance.url, user)) twice++;
  const { keys, lasting } = await keysOf(redis);
  const name = `limits-values-${kind}`;
  return [
    result(name, sent, "distinct values sent", noBudget),
    result(
      `${name}-memory`,
      most - before,
      `MB more memory of the worker at most, ${MOST_VALUES} values kept`,
      atMost(150),
    ),
    result(
      `${name}-admitted`,
      (sent - refused) / sent,
      "share admitted; without room, values share a bucket",
      noBudget,
    ),
    result(`${name}-sample`, known.length, `of ${SAMPLE} values admitted before`, noBudget),
    result(`${name}-twice`, twice, "of them admitted again afterwards (1 per hour each)", atMost(0)),
    result(`${name}-keys`, keys, "keys in the store", noBudget),
    result(`${name}-lasting`, lasting, "of 1,000 of them without expiry", atMost(0)),
  ];
}

export async function limitsValues(): Promise<Result[]> {
  const kinds: PlaneKind[] = findEnvoy() === undefined ? ["node", "nginx"] : ["node", "nginx", "envoy"];
  const results: Result[] = [];
  for (const kind of kinds) results.push(...(await onPlane(kind)));
  return results;
}
