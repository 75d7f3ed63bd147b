/** Rule books of two services on one real Redis: together they let exactly the limit pass, and take back what was given back. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { Descriptor } from "../../../src/descriptors/descriptor.js";
import { createDescriptorLimiter, type DescriptorLimiter } from "../../../src/descriptors/descriptor-limiter.js";
import { createLimiter } from "../../../src/limiter/limiter.js";
import { createQuota } from "../../../src/quota/quota.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { waitFor } from "../../support/wait-for.js";
import { domain, entries, limit, rule } from "../../unit/descriptors/rule-examples.js";

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

let worlds = 0;

interface Service {
  book: DescriptorLimiter;
  id: string;
}

function startBooks(): [Service, Service] {
  const id = `books-${++worlds}`;
  const start = (node: string): Service => {
    const store = createRedisStore({ url: server.url });
    const quota = createQuota(store, { id, capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 10_000 });
    const limiter = createLimiter({ node, target: quota, apps: [], unknownApps: "reject", timeoutMs: 5_000 });
    const book = createDescriptorLimiter({ limiter, domains: [rules], maxValues: 100 });
    endings.push(async () => {
      book.close();
      await limiter.close();
      await store.close();
    });
    return { book, id };
  };
  return [start("n1"), start("n2")];
}

const of = (...all: string[]): Descriptor => ({ entries: entries(...all) });
const allowed = async (book: DescriptorLimiter, ...descriptors: Descriptor[]) =>
  (await book.decide("shop", descriptors, 1)).allowed;

it("a limit is used up to the last token and not one more, however the requests fall", async () => {
  const [first, second] = startBooks();
  let passed = 0;
  // Tokens that wait on one node are found by the other as soon as they went back.
  await waitFor("all to be used", async () => {
    const waves = [first, first, first, second].flatMap(({ book }) => [book, book, book, book, book]);
    const made = await Promise.all(waves.map((book) => allowed(book, of("user=ann"))));
    passed += made.filter(Boolean).length;
    return passed >= 100;
  });
  for (let i = 0; i < 50; i++) if (await allowed(i % 2 === 0 ? first.book : second.book, of("user=ann"))) passed++;
  expect(passed).toBe(100);
});

it("one per hour is one, of a hundred that come at once to both", async () => {
  const [first, second] = startBooks();
  const made = await Promise.all(
    Array.from({ length: 100 }, (_, i) => allowed(i % 2 === 0 ? first.book : second.book, of("tiny=x"))),
  );
  expect(made.filter(Boolean)).toHaveLength(1);
});

it("shadow mode, replaces and refunds are the same over Redis", async () => {
  const [{ book, id }] = startBooks();
  const both = [of("general=x"), of("special=x")];
  const made = await Promise.all(Array.from({ length: 20 }, () => allowed(book, ...both)));
  expect(made.filter(Boolean)).toHaveLength(8);
  expect(await allowed(book, of("general=x"))).toBe(true);
  for (let i = 0; i < 3; i++) expect(await allowed(book, of("shadow=x"))).toBe(true);
  await book.decide("shop", [{ ...of("special=x"), negative: true, hits: 3 }], 1);
  const again = await Promise.all(Array.from({ length: 20 }, () => allowed(book, ...both)));
  expect(again.filter(Boolean)).toHaveLength(3);
  // Nothing of a value is in a key.
  const keys = (await server.command("KEYS", `ratelimit:{${id}}:app:*`)) as string[];
  expect(keys.length).toBe(3);
  for (const key of keys) expect(key).toMatch(/:app:rate-limit:[\w-]{32}$/);
});
