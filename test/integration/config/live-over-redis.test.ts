/** Services on one Redis share the store layer: by pub/sub messages, and by polling after Redis was unavailable. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { configChannel, configKey } from "../../../src/core/keys.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { type RedisCluster, startRedisCluster } from "../../support/redis-cluster.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { waitFor } from "../../support/wait-for.js";
import { CLUSTER, type LiveNode, liveNodes } from "../../unit/config/live-node.js";

const nodes = liveNodes();
const stores: Store[] = [];
afterEach(async () => {
  await nodes.close();
  await Promise.all(stores.splice(0).map((store) => store.close()));
});

/** Each node has its own connection, as in a separate process. */
function start(url: string, yaml = "fail_open_tokens: 5\n"): Promise<LiveNode> {
  const store = createRedisStore({ url, deadlineMs: 1_000 });
  stores.push(store);
  return nodes.start({ yaml, store });
}

const startThree = async (url: string) => [await start(url), await start(url), await start(url)] as const;

async function allFollow(all: readonly LiveNode[], tokens: number): Promise<void> {
  for (const { live } of all) {
    await waitFor(`${tokens} tokens`, () => live.current().fail_open_tokens === tokens);
  }
  expect(new Set(all.map(({ live }) => live.version())).size).toBe(1);
}

describe("on Redis", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.stop());
  afterEach(() => redis.command("FLUSHALL"));

  it("all nodes apply the layer that one of them wrote", async () => {
    const three = await startThree(redis.url);
    expect((await three[0].live.putLayer({ fail_open_tokens: 7 })).status).toBe("reloaded");
    await allFollow(three, 7);
    expect((await three[2].live.putLayer({ fail_open_tokens: 8 })).status).toBe("reloaded");
    await allFollow(three, 8);
    expect(await three[1].live.layer()).toEqual({ revision: 2, config: { fail_open_tokens: 8 } });
  });

  it("all nodes read their files when one of them reloads", async () => {
    const three = await startThree(redis.url);
    for (const { write } of three) write("fail_open_tokens: 9\n");
    await three[1].live.reload({ source: "all", force: false });
    await allFollow(three, 9);
  });

  it("a message has the documented fields and no part of the configuration", async () => {
    const [one] = await startThree(redis.url);
    const received: string[] = [];
    await stores[1]!.subscribe(configChannel(CLUSTER), (message) => void received.push(message));
    await one.live.putLayer({ fail_open_tokens: 7 });
    await waitFor("the message", () => received.length > 0);
    expect(JSON.parse(received[0] ?? "")).toEqual({
      ...{
        type: "config_reload",
        version: one.live.version(),
        timestamp: expect.any(Number),
        node: expect.any(String),
      },
    });
  });

  it("unexpected messages change nothing", async () => {
    const three = await startThree(redis.url);
    const forged = JSON.stringify({ type: "config_reload", version: "forged", config: { fail_open_tokens: 1 } });
    for (const message of [forged, "", "{", "x".repeat(100_000)]) {
      await redis.command("PUBLISH", configChannel(CLUSTER), message);
    }
    await three[0].live.putLayer({ fail_open_tokens: 7 });
    await allFollow(three, 7);
    for (const { changes } of three) expect(changes).toHaveLength(1);
  });

  it("of two concurrent writes with the same revision, one gets a conflict", async () => {
    const three = await startThree(redis.url);
    const { revision } = await three[0].live.layer();
    const results = await Promise.all(three.map(({ live }, i) => live.putLayer({ fail_open_tokens: 7 + i }, revision)));
    expect(results.map(({ status }) => status).sort()).toEqual(["conflict", "conflict", "reloaded"]);
    const { config } = await three[0].live.layer();
    await allFollow(three, Number(config.fail_open_tokens));
  });

  it("a node that starts later applies the current layer", async () => {
    const one = await start(redis.url);
    await one.live.putLayer({ fail_open_tokens: 7 });
    await allFollow([one, await start(redis.url)], 7);
  });

  it("a key of another type changes nothing and is reported until it is removed", async () => {
    const two = [await start(redis.url), await start(redis.url)] as const;
    await two[0].live.putLayer({ fail_open_tokens: 7 });
    await allFollow(two, 7);
    await redis.command("SET", configKey(CLUSTER), "garbage");
    await redis.command("PUBLISH", configChannel(CLUSTER), "look");
    for (const { live } of two) {
      await waitFor("the error to be reported", () => live.lastError()?.startsWith("store layer: cannot be read"));
      expect(live.current().fail_open_tokens).toBe(7);
    }
    await redis.command("DEL", configKey(CLUSTER));
    expect((await two[1].live.putLayer({ fail_open_tokens: 8 })).status).toBe("reloaded");
    await allFollow(two, 8);
    for (const { live } of two) expect(live.lastError()).toBeUndefined();
  });

  it("a layer that is too large or invalid changes nothing", async () => {
    const one = await start(redis.url);
    await one.live.putLayer({ fail_open_tokens: 7 });
    for (const [text, complaint] of [
      [`"${"x".repeat(2_000_000)}"`, "is larger than 1048576 bytes"],
      ["\u0000\u00ff{", "is not JSON"],
      ['{"fail_open_tokens":-1}', "fail_open_tokens (store layer): must be a whole number"],
    ] as const) {
      await redis.command("HSET", configKey(CLUSTER), "revision", "no number", "config", text);
      expect((await one.live.reload({ source: "store", force: true })).status).toBe("refused");
      expect(one.live.lastError()).toContain(complaint);
      expect(one.live.current().fail_open_tokens).toBe(7);
    }
    expect((await one.live.putLayer({ fail_open_tokens: 8 })).status).toBe("reloaded");
  });

  it("changes during an outage of Redis are applied afterwards", async () => {
    const two = [await start(redis.url), await start(redis.url)] as const;
    await redis.kill();
    two[0].write("fail_open_tokens: 6\n");
    expect((await two[0].live.reload({ source: "all", force: false })).status).toBe("reloaded");
    await expect(two[0].live.putLayer({ fail_open_tokens: 7 })).rejects.toMatchObject({ name: "StoreError" });
    expect(two[0].live.current().fail_open_tokens).toBe(6);
    await redis.restart();
    // Written without a message, as by a node whose messages do not arrive.
    await redis.command("HSET", configKey(CLUSTER), "revision", 1, "config", '{"fail_open_tokens":7}');
    await allFollow(two, 7);
  });

  it("a service starts without Redis and applies the layer when it is available", async () => {
    await redis.kill();
    const one = await start(redis.url);
    expect(one.live.current().fail_open_tokens).toBe(5);
    await redis.restart();
    await redis.command("HSET", configKey(CLUSTER), "revision", 3, "config", '{"fail_open_tokens":7}');
    await allFollow([one], 7);
  });
});

describe("on a Redis Cluster", () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster();
  });
  afterAll(() => cluster?.stop());

  it("all nodes apply the layer", async () => {
    const three = await startThree(cluster.url);
    expect((await three[0].live.putLayer({ fail_open_tokens: 7 })).status).toBe("reloaded");
    await allFollow(three, 7);
  });
});
