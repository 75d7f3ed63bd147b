/** Limits on any key together with shards, recalls, many nodes and WebSockets. */
import { request } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { createLimiter, type LibraryLimiter } from "../../src/index.js";
import { exactTokensOfManyUsers, lastTokensOfUsers } from "../scenarios/any-key.js";
import { onStore } from "../scenarios/scenario-store.js";
import { startSocketWorld } from "../scenarios/socket-world.js";
import { startGateway, startSmallBackend } from "../support/gateway-process.js";
import { nginxPlane, startNginx } from "../support/nginx-process.js";
import type { PlaneKind } from "../support/planes.js";
import { startRedis } from "../support/redis-server.js";
import { connectSocket } from "../support/socket-clients.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const kinds: PlaneKind[] = ["node", "nginx", "envoy"];

describe.each(kinds)("limits on %s", (kind) => {
  it("tokens are recalled from the instance that holds them, on five shards", () =>
    onStore({ kind: "redis", shards: 5 }, () => lastTokensOfUsers(kind)));

  it("a thousand users at their limit: none gets a request too many", () =>
    onStore({ kind: "redis", shards: 2 }, () => exactTokensOfManyUsers(kind)));

  it("a WebSocket counts as a request, and one beyond the limit takes no slot", async () => {
    const world = await startSocketWorld(kind, {
      ...{ instances: 1, workers: 1, leaseSeconds: 30 },
      routes: { chat: { pods: 1, connections: { max_per_pod: 100, rate_per_second: 0 } } },
      yaml: "limits: [{ name: per-user, key: [user], rate: 2/h, on_store_failure: closed }]\n",
    });
    endings.push(() => world.stop());
    const chat = world.route("chat");
    const connect = async (user: string) => {
      for (;;) {
        const client = connectSocket(chat.url(0), { "x-app-id": "default", "x-user-id": user });
        endings.push(() => client.socket.terminate());
        const outcome = await client.outcome;
        // On a busy machine the store can seem slow; such a request takes nothing and is repeated.
        if (outcome.open) return "open";
        if (outcome.status !== 503) return `${outcome.status} ${outcome.reason}`;
      }
    };
    const seen: string[] = [];
    for (const user of ["ann", "ann", "ann", "bob"]) seen.push(await connect(user));
    expect(seen).toEqual(["open", "open", "429 quota_exhausted", "open"]);
    await chat.untilCounted(3);
    expect(chat.live()).toBe(3);
  });
});

it("5 per minute over 19 library nodes and one nginx: the first five of 30 requests pass, wherever they arrive", async () => {
  nginxPlane();
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = `
store: ${redis.url}
log: { level: warn }
cluster: { id: many, capacity: 1000000, rate: 500000, shards: 1 }
apps: { shop: { guaranteed: 100000, burst: 100000 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
limits: [{ name: logins, key: [user], rate: 5/min, on_store_failure: closed }]
`;
  const service = await startGateway(`workers: 1\nnode_id: service\n${yaml}`);
  endings.push(() => service.stop());
  const services = [service.controlUrl.replace("http://", "")];
  const nginx = await startNginx(yaml, { services, workers: 1, node: "nginx" });
  endings.push(() => nginx.stop());
  const library: LibraryLimiter[] = [];
  for (let i = 0; i < 19; i++) {
    const limiter = await createLimiter({
      ...{ store: redis.url, node: `library-${i}` },
      cluster: { id: "many", capacity: 1_000_000, rate: 500_000, shards: 1 },
      apps: { shop: { guaranteed: 100_000, burst: 100_000 } },
      limits: [{ name: "logins", key: ["user"], rate: "5/min", onStoreFailure: "closed" }],
    });
    endings.push(() => limiter.close());
    library.push(limiter);
  }
  /** 503 costs nothing and is repeated: on a busy machine the store can seem slow. */
  async function status(node: number, user: string): Promise<number> {
    for (;;) {
      const limiter = library[node];
      if (limiter === undefined) {
        const { statusCode, body } = await request(nginx.url, { headers: { "x-app-id": "shop", "x-user-id": user } });
        await body.dump();
        if (statusCode !== 503) return statusCode;
      } else {
        const { allowed, code } = await limiter.check({ app: "shop", user, method: "POST", ip: "192.0.2.1" });
        if (code !== "store_unavailable") return allowed ? 200 : 429;
      }
    }
  }
  // nginx is the first, one in the middle, or the last that gets a token.
  for (const [user, first] of [
    ["ann", 19],
    ["bob", 17],
    ["carl", 15],
  ] as const) {
    const started = performance.now();
    const seen: number[] = [];
    for (let i = 0; i < 30; i++) seen.push(await status((first + i) % 20, user));
    const seconds = (performance.now() - started) / 1000;
    expect(seen.slice(0, 5)).toEqual([200, 200, 200, 200, 200]);
    expect(seen.filter((one) => one === 200).length).toBeLessThanOrEqual(5 + (5 * seconds) / 60);
  }
});
