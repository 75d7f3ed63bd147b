/** Pub/sub under faults: errors have a kind and arrive within the deadline, and subscribers follow Sentinel. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RedisStoreOptions } from "../../../src/store/redis/redis-store.js";
import { loopMs } from "../../support/loop-time.js";
import { type SentinelSetup, startSentinel } from "../../support/redis-sentinel.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { openTestStore, type TestStore } from "../../support/store-scripts.js";
import { waitFor } from "../../support/wait-for.js";

const open: TestStore[] = [];
afterEach(() => Promise.all(open.splice(0).map((store) => store.close())));

function openStore(options: RedisStoreOptions): TestStore {
  const store = openTestStore({ deadlineMs: 500, ...options });
  open.push(store);
  return store;
}

const ignore = () => {};

describe("messages on Redis", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.stop());

  const listeners = async () => Number(((await redis.command("PUBSUB", "NUMSUB", "news")) as unknown[])[1]);

  it("a stopped server gives timeout or unavailable within the deadline, and leaves no subscription", async () => {
    const store = openStore({ url: redis.url });
    await store.run("echo", [], ["hello"]);
    redis.pause();
    try {
      const begun = loopMs();
      const kind = expect.stringMatching(/^(timeout|unavailable)$/);
      await expect(store.subscribe("news", ignore)).rejects.toMatchObject({ name: "StoreError", kind });
      await expect(store.publish("news", "x", { deadlineMs: 200 })).rejects.toMatchObject({ name: "StoreError", kind });
      expect(loopMs() - begun).toBeLessThan(1500);
    } finally {
      redis.resume();
    }
    await waitFor("a successful call", () => store.run("echo", [], ["hello"]));
    expect(await listeners()).toBe(0);
    const received: string[] = [];
    await store.subscribe("news", (message) => received.push(message));
    await store.publish("news", "back");
    await waitFor("the message", () => received.length === 1);
  });

  it("a user without permission for a channel is denied at once and keeps its other subscriptions", async () => {
    await redis.command("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+@all", "resetchannels", "&news");
    const store = openStore({ url: `redis://narrow:secret@127.0.0.1:${redis.port}`, deadlineMs: 5000 });
    const received: string[] = [];
    await store.subscribe("news", (message) => received.push(message));
    const begun = loopMs();
    await expect(store.subscribe("other", ignore)).rejects.toMatchObject({ kind: "denied" });
    await expect(store.publish("other", "x")).rejects.toMatchObject({ kind: "denied" });
    expect(loopMs() - begun).toBeLessThan(2000);
    await waitFor("the subscription to be restored", async () => (await listeners()) === 1);
    await store.publish("news", "still here");
    await waitFor("the message", () => received.includes("still here"));
  });

  it("a wrong password is denied", async () => {
    const store = openStore({ url: `redis://nobody:wrong@127.0.0.1:${redis.port}`, deadlineMs: 5000 });
    await expect(store.subscribe("news", ignore)).rejects.toMatchObject({ kind: "denied" });
    await expect(store.publish("news", "x")).rejects.toMatchObject({ kind: "denied" });
  });

  it("the connection for subscriptions is closed after the last unsubscribe", async () => {
    const store = openStore({ url: redis.url });
    const leave = await store.subscribe("news", ignore);
    expect(await listeners()).toBe(1);
    leave();
    await waitFor("the connection to be gone", async () => {
      const list = String(await redis.command("CLIENT", "LIST"));
      return !list.includes("name=tollgate-listener");
    });
  });

  it("closing the store rejects a pending subscription", async () => {
    redis.pause();
    try {
      const store = openStore({ url: redis.url, deadlineMs: 5000 });
      const pending = expect(store.subscribe("news", ignore)).rejects.toMatchObject({ kind: "closed" });
      await store.close();
      await pending;
    } finally {
      redis.resume();
    }
  });
});

describe("messages on Sentinel", () => {
  let setup: SentinelSetup;
  beforeAll(async () => {
    setup = await startSentinel();
  });
  afterAll(() => setup?.stop());

  it("subscribers follow to the new primary when the primary is killed", async () => {
    const [one, other] = [openStore({ url: setup.url }), openStore({ url: setup.url })];
    const received: string[] = [];
    await one.subscribe("news", (message) => received.push(message));
    await other.publish("news", "before");
    await waitFor("the first message", () => received.includes("before"));
    await setup.killPrimary();
    await waitFor("a message through the new primary", async () => {
      await other.publish("news", "after");
      return received.includes("after");
    });
  });
});
