/** A store on Sentinel follows the primary when it dies, when it is switched, and past a sentinel that hangs. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RedisStoreOptions } from "../../../src/store/redis/redis-store.js";
import { startLoad } from "../../support/load.js";
import { type SentinelSetup, startSentinel } from "../../support/redis-sentinel.js";
import { openTestStore, type TestStore } from "../../support/store-scripts.js";
import { waitFor } from "../../support/wait-for.js";

const DEADLINE_MS = 1_000;
const open: TestStore[] = [];

afterEach(() => Promise.all(open.splice(0).map((store) => store.close())));

function openStore(options: RedisStoreOptions): TestStore {
  const store = openTestStore({ deadlineMs: DEADLINE_MS, ...options });
  open.push(store);
  return store;
}

async function expectToFollow(store: TestStore, change: () => Promise<void>): Promise<void> {
  const load = startLoad(10, (id) => store.run("count", ["c", "ids"], [id]));
  const untilWell = () => {
    load.streak = 0;
    return waitFor("100 successful calls in a row", () => load.streak >= 100);
  };
  await untilWell();
  await change();
  await untilWell();
  await load.stop();
  expect(load.foreign).toEqual([]);
  expect(load.slowestMs).toBeLessThan(3 * DEADLINE_MS);
  expect([...load.outcomes.keys()].filter((kind) => !["ok", "unavailable", "timeout"].includes(kind))).toEqual([]);
}

describe("without passwords", () => {
  let setup: SentinelSetup;
  beforeAll(async () => {
    setup = await startSentinel();
  });
  afterAll(() => setup?.stop());

  it("finds the primary past a sentinel that hangs", async () => {
    setup.sentinels[0]?.pause();
    try {
      const store = openStore({ url: setup.url });
      expect(store).toMatchObject({ kind: "redis-sentinel" });
      expect(await store.run("add", ["k"], [])).toEqual([1]);
      expect(await store.inspect()).toMatchObject({ nodes: 1, connectedNodes: 1, warnings: [] });
    } finally {
      setup.sentinels[0]?.resume();
    }
  });

  it("continues with the replica when the primary is killed under load", async () => {
    await expectToFollow(openStore({ url: setup.url }), setup.killPrimary);
  });
});

describe("with passwords", () => {
  let setup: SentinelSetup;
  beforeAll(async () => {
    setup = await startSentinel({ password: "red/is", sentinelPassword: "senti-nel" });
  });
  afterAll(() => setup?.stop());

  const urlWith = (password: string) => setup.url.replace("://", `://:${encodeURIComponent(password)}@`);

  it("rejects with denied when the password of Redis or of the sentinels is wrong", async () => {
    const wrongRedis = openStore({ url: urlWith("wrong"), sentinelPassword: "senti-nel" });
    await expect(wrongRedis.run("add", ["k"], [])).rejects.toMatchObject({ kind: "denied" });
    const wrongSentinel = openStore({ url: urlWith("red/is"), sentinelPassword: "wrong" });
    await expect(wrongSentinel.run("add", ["k"], [])).rejects.toMatchObject({ kind: "denied" });
  });

  it("follows the primary when it is switched under load", async () => {
    const store = openStore({ url: urlWith("red/is"), sentinelPassword: "senti-nel" });
    await expectToFollow(store, setup.switchPrimary);
  });
});
