/** rate-limiter-flexible with Redis, in a proxy made with http-proxy-3. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fromRoot } from "../../build/paths.js";
import { startRedis } from "../../test/support/redis-server.js";
import { cpuNs } from "../support/cpu-time.js";
import { type Kind, keeping, LIMIT, perNode } from "./system.js";

const versionOf = (name: string) =>
  JSON.parse(readFileSync(fromRoot(`node_modules/${name}/package.json`), "utf8")).version as string;

async function startProxy(backend: string, redisUrl: string) {
  const script = new URL("flexible-side.ts", import.meta.url).pathname;
  const args = ["--import", "tsx", script, backend.split(":")[1]!, redisUrl];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return {
    url: `http://127.0.0.1:${Number(line.toString())}/`,
    pid: child.pid!,
    async stop() {
      child.kill("SIGKILL");
    },
  };
}

export const flexiblePeer: Kind = {
  name: "rate-limiter-flexible",
  title: "rate-limiter-flexible + http-proxy-3",
  isOurs: false,
  version: () => `${versionOf("rate-limiter-flexible")} + ${versionOf("http-proxy-3")}`,
  configuration: `new RateLimiterRedis({
  storeClient: new Redis(url, { enableOfflineQueue: false }), keyPrefix: "app", points: ${LIMIT.rate}, duration: 1,
  inMemoryBlockOnConsumed: ${LIMIT.rate}, rejectIfRedisNotReady: true,
  insuranceLimiter: new RateLimiterMemory({ points: ${LIMIT.rate / 3}, duration: 1 }),
})
// The same per user. A request is admitted if both limiters consume a point.`,
  source: "its wiki: Redis, Insurance Strategy, In-memory Block Strategy. A fixed window: it has no burst",
  hasUserLimit: true,
  start: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const nodes = await perNode(async () => keep(await startProxy(world.backend, redis.url)));
      const bare = keep(await startProxy(world.backend, ""));
      return {
        urls: nodes.map(({ url }) => url),
        bareUrl: bare.url,
        nodeNs: () => cpuNs([nodes[0]!.pid, redis.pid]),
        bareNs: () => cpuNs([bare.pid]),
        redis,
      };
    }),
};
