/** A primary of a real Redis Cluster dies under load: how long decisions about apps on the other primaries take. */
import { clusterKey } from "../src/core/keys.js";
import { shardOf } from "../src/core/shard.js";
import { createLimiter, type LibraryLimiter } from "../src/limiter/library/library.js";
import { shardTags } from "../src/quota/shard-tags.js";
import { startRedisCluster } from "../test/support/redis-cluster.js";
import { atMost, noBudget, type Result, result } from "./results.js";
import { addLatency, newLatencies, percentileMs } from "./support/latencies.js";
import { pace } from "./support/pace.js";

const CLUSTER = "killed";
const SHARDS = 16;
const SECONDS = 8;
const PER_SECOND = 500;
/** Every fifth request is the first one of an app, which waits for a grant. */
const FIRST_EVERY = 5;
const AMPLE = { guaranteed: 100_000, burst: 1_000_000 };

export async function shardsKilled(): Promise<Result[]> {
  const cluster = await startRedisCluster({ nodeTimeoutMs: 2_000 });
  const tags = shardTags(CLUSTER, SHARDS);
  const dying = await cluster.primaryOf(clusterKey(tags[0]!));
  const safe: number[] = [];
  for (const [shard, tag] of tags.entries()) {
    if ((await cluster.primaryOf(clusterKey(tag))) !== dying) safe.push(shard);
  }
  const ids = Array.from({ length: (3 * SECONDS * PER_SECOND) / FIRST_EVERY }, (_, i) => idOn(safe, i));
  const limiter = await createLimiter({
    store: cluster.url,
    cluster: { id: CLUSTER, capacity: 1e9, rate: 1e9 },
    node: "n1",
    apps: Object.fromEntries(ids.map((id) => [id, AMPLE])),
  });
  try {
    const unused = [...ids];
    await load(limiter, unused);
    const before = await load(limiter, unused);
    const failover = cluster.killPrimaryOf(clusterKey(tags[0]!));
    const during = await load(limiter, unused);
    await failover;
    const { p99Ms } = before;
    return [
      result("shards-killed-p99-before", p99Ms, "ms, P99 of apps on other primaries", noBudget),
      result("shards-killed-p99", during.p99Ms, "ms, P99 while a primary is dead", noBudget),
      result("shards-killed-p99-ratio", during.p99Ms / p99Ms, "P99, while a primary is dead ÷ before", atMost(1.5)),
      result("shards-killed-refused", during.refused, "requests of apps on other primaries refused", atMost(0)),
    ];
  } finally {
    await limiter.close();
    await cluster.stop();
  }
}

/** An app on one of the shards. */
function idOn(shards: number[], number: number): string {
  for (let i = 0; ; i++) {
    const id = `app-${number}-${i}`;
    if (shards.includes(shardOf(id, SHARDS))) return id;
  }
}

async function load(limiter: LibraryLimiter, unused: string[]) {
  const latencies = newLatencies();
  const pending: Promise<void>[] = [];
  const known = [unused.pop()!];
  let sent = 0;
  let refused = 0;
  await pace({ perSecond: PER_SECOND, seconds: SECONDS }, () => {
    const first = sent++ % FIRST_EVERY === 0 ? unused.pop() : undefined;
    if (first !== undefined) known.push(first);
    const app = first ?? known[Math.floor(Math.random() * known.length)]!;
    const startedMs = performance.now();
    pending.push(
      Promise.resolve(limiter.take(app, 1)).then(({ allowed }) => {
        addLatency(latencies, performance.now() - startedMs);
        if (!allowed) refused++;
      }),
    );
  });
  await Promise.all(pending);
  return { p99Ms: percentileMs(latencies, 0.99), refused };
}
