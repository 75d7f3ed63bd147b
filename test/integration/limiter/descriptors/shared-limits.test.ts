/** Descriptor limits of two nodes on a real Redis: together they allow exactly the limit. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { Descriptor } from "../../../../src/limiter/descriptors/descriptor.js";
import {
  createDescriptorLimiter,
  type DescriptorLimiter,
} from "../../../../src/limiter/descriptors/descriptor-limiter.js";
import { createLimiter } from "../../../../src/limiter/limiter.js";
import { createQuota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";
import { domain, entries, limit, rule } from "../../../unit/limiter/descriptors/rule-examples.js";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});

const rules = domain(
  rule("user", limit(100, "day")),
  rule("tiny", limit(1, "hour")),
  rule("shadow", limit(1, "hour", { shadow: true })),
  rule("general", limit(5, "hour", { name: "general" })),
  rule("special", limit(8, "hour", { replaces: ["general"] })),
);

let clusters = 0;

interface Node {
  descriptors: DescriptorLimiter;
  id: string;
}

function startNodes(): [Node, Node] {
  const id = `nodes-${++clusters}`;
  const start = (node: string): Node => {
    const store = createRedisStore({ url: server.url });
    const quota = createQuota(store, { id, capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 10_000 });
    const limiter = createLimiter({ node, target: quota, apps: [], unknownApps: "reject", timeoutMs: 5_000 });
    const descriptors = createDescriptorLimiter({ limiter, domains: [rules], maxValues: 100 });
    endings.push(async () => {
      descriptors.close();
      await limiter.close();
      await store.close();
    });
    return { descriptors, id };
  };
  return [start("n1"), start("n2")];
}

const of = (...all: string[]): Descriptor => ({ entries: entries(...all) });
const allowed = async ({ descriptors }: Node, ...asked: Descriptor[]) =>
  (await descriptors.decide("shop", asked, 1)).allowed;

it("two nodes together allow exactly the limit, with uneven load", async () => {
  const [first, second] = startNodes();
  let passed = 0;
  // Idle tokens of one node can be used by the other when they have been returned.
  await waitFor("all to be used", async () => {
    const waves = [first, first, first, second].flatMap((node) => [node, node, node, node, node]);
    const made = await Promise.all(waves.map((node) => allowed(node, of("user=ann"))));
    passed += made.filter(Boolean).length;
    return passed >= 100;
  });
  for (let i = 0; i < 50; i++) if (await allowed(i % 2 === 0 ? first : second, of("user=ann"))) passed++;
  expect(passed).toBe(100);
});

it("a limit of one allows one of a hundred simultaneous requests on both nodes", async () => {
  const [first, second] = startNodes();
  const made = await Promise.all(
    Array.from({ length: 100 }, (_, i) => allowed(i % 2 === 0 ? first : second, of("tiny=x"))),
  );
  expect(made.filter(Boolean)).toHaveLength(1);
});

it("shadow mode, replacement and negative hits work with Redis", async () => {
  const [node] = startNodes();
  const both = [of("general=x"), of("special=x")];
  const made = await Promise.all(Array.from({ length: 20 }, () => allowed(node, ...both)));
  expect(made.filter(Boolean)).toHaveLength(8);
  expect(await allowed(node, of("general=x"))).toBe(true);
  for (let i = 0; i < 3; i++) expect(await allowed(node, of("shadow=x"))).toBe(true);
  await node.descriptors.decide("shop", [{ ...of("special=x"), negative: true, hits: 3 }], 1);
  const again = await Promise.all(Array.from({ length: 20 }, () => allowed(node, ...both)));
  expect(again.filter(Boolean)).toHaveLength(3);
  // Keys contain no values.
  const keys = (await server.command("KEYS", `ratelimit:{${node.id}/0}:app:*`)) as string[];
  expect(keys.length).toBe(3);
  for (const key of keys) expect(key).toMatch(/:app:rate-limit:[\w-]{32}$/);
});
