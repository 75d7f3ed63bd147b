/** Emergency messages reach all services, also after Redis restarted, hung or failed over. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type RedisCluster, startRedisCluster } from "../../support/redis-cluster.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import {
  CLUSTER,
  expectAllToHear,
  listenersAt,
  type Service,
  startService,
  untilAllHear,
  untilListening,
} from "./coordinators.js";

const open: Service[] = [];
afterEach(() => Promise.all(open.splice(0).map((service) => service.close())));

function start(url: string, count: number): Service[] {
  for (let i = 0; i < count; i++) open.push(startService(url, `s${open.length}`));
  return open;
}

describe("emergency messages on Redis", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.stop());

  it("reach all services in less than a second", async () => {
    const services = start(redis.url, 3);
    await untilListening([redis], 3);
    expect(await expectAllToHear(services)).toBeLessThan(1000);
  });

  it("reach all services again after a restart of Redis", async () => {
    const services = start(redis.url, 3);
    await untilListening([redis], 3);
    await redis.restart();
    await untilListening([redis], 3);
    await untilAllHear(services);
  });

  it("reach all services again after Redis hung until they closed their connections", async () => {
    const services = start(redis.url, 3);
    await untilListening([redis], 3);
    const before = await connectionIds(redis);
    redis.pause();
    // Each subscriber pings every second and waits one second for the reply. The test cannot observe when it gives up.
    await new Promise((resolve) => setTimeout(resolve, 2500));
    redis.resume();
    await untilListening([redis], 3);
    expect((await connectionIds(redis)).filter((id) => before.includes(id))).toEqual([]);
    await untilAllHear(services);
  });

  it("have no subscribers after all services are closed", async () => {
    const services = start(redis.url, 2);
    await untilListening([redis], 2);
    await Promise.all(services.splice(0).map((service) => service.close()));
    await untilListening([redis], 0);
  });

  it("reach a service that started without Redis once Redis is available", async () => {
    await redis.kill();
    const services = start(redis.url, 2);
    await expect(services[0]?.coordinator.emergencyOn(0, "test", "sre")).rejects.toMatchObject({ kind: "unavailable" });
    await redis.restart();
    await untilListening([redis], 2);
    await untilAllHear(services);
  });
});

async function connectionIds(redis: RedisServer): Promise<string[]> {
  const list = String(await redis.command("CLIENT", "LIST", "TYPE", "pubsub"));
  return [...list.matchAll(/^id=(\d+)/gm)].map((match) => match[1] ?? "");
}

describe("emergency messages on Redis Cluster", () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster();
  });
  afterAll(() => cluster?.stop());

  /** Starts at least three services, and more until one of them subscribes at the primary of the key. */
  async function startAround(key: string): Promise<Service[]> {
    const primary = await cluster.primaryOf(key);
    start(cluster.url, 3);
    await untilListening(cluster.nodes, 3);
    while ((await listenersAt(primary)) === 0 && open.length < 60) {
      start(cluster.url, 1);
      await untilListening(cluster.nodes, open.length);
    }
    expect(await listenersAt(primary)).toBeGreaterThan(0);
    return open;
  }

  it("reach all services in less than a second, whichever node they subscribe at", async () => {
    const services = await startAround(`{${CLUSTER}}`);
    expect(await expectAllToHear(services)).toBeLessThan(1000);
  });

  it("reach all services again after a replica took over from a killed primary", async () => {
    const services = await startAround(`{${CLUSTER}}`);
    const dead = await cluster.killPrimaryOf(`{${CLUSTER}}`);
    const living = cluster.nodes.filter((node) => node !== dead);
    await untilListening(living, services.length);
    await untilAllHear(services);
    await cluster.settled();
  });

  it("reach all services again when a primary hangs but keeps its connections", async () => {
    const services = await startAround(`{${CLUSTER}}`);
    const hanging = await cluster.hangPrimaryOf(`{${CLUSTER}}`);
    const living = cluster.nodes.filter((node) => node !== hanging);
    await untilListening(living, services.length);
    await untilAllHear(services);
    hanging.resume();
    await cluster.settled();
  });
});
