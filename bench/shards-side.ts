/**
 * A node of the bench that syncs 100 apps: `tsx shards-side.ts URL SHARDS` prints the microseconds of CPU per app in a
 * message. Each number of shards has its own process, as in production, so that V8 compiles the code for it.
 */
import { limitedApp } from "../test/support/simulation.js";
import { pause } from "../test/support/wait-for.js";

/** The built files: tsx adds a call per function that is created, which is more per message than per app. */
const built = (path: string) => import(new URL(`../dist/${path}`, import.meta.url).href);
const { createLimiter }: typeof import("../src/limiter/limiter.js") = await built("limiter/limiter.js");
const { createQuota }: typeof import("../src/quota/quota.js") = await built("quota/quota.js");
const { createRedisStore }: typeof import("../src/store/redis/redis-store.js") =
  await built("store/redis/redis-store.js");

const [url = "", shards = "1"] = process.argv.slice(2);
const SYNCED_APPS = 100;
/** Not reached. */
const AMPLE = { guaranteed: 100_000, burst: 1_000_000 };
/** Every app is due in every message: it reports each token that it spends. Messages are frequent, so that their code is soon compiled. */
const EVERY_TOKEN = { batchThreshold: 1, syncIntervalMs: 20 };
const SPEND_EVERY_MS = 10;
const WARM_UP_MS = 25_000;
const COUNTED_MS = 10_000;

const store = createRedisStore({ url, deadlineMs: 5_000 });
const cluster = { id: `cpu-${shards}`, capacity: 1e9, rate: 1e9, nodeTtlMs: 30_000, shards: Number(shards) };
const quota = createQuota(store, cluster);
await quota.verify();
const ids = Array.from({ length: SYNCED_APPS }, (_, i) => `app-${i}`);
let entries = 0;
const limiter = createLimiter({
  node: "n1",
  target: quota,
  apps: ids.map((id) => limitedApp({ id, ...AMPLE })),
  lease: EVERY_TOKEN,
  timeoutMs: 5_000,
  observer: {
    synced(_outcome, _ms, apps) {
      entries += apps;
    },
  },
});
const spend = setInterval(() => {
  for (const id of ids) void limiter.take(id, 1);
}, SPEND_EVERY_MS);
await pause(WARM_UP_MS);
const [before, from] = [process.cpuUsage(), entries];
await pause(COUNTED_MS);
const { user, system } = process.cpuUsage(before);
process.stdout.write(((user + system) / (entries - from)).toFixed(2));
clearInterval(spend);
await limiter.close();
await store.close();
