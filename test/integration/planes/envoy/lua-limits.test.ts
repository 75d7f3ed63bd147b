/** Values of limits in Envoy's Lua filter: bounded in number, decided with one call, and charged once. */
import { request } from "undici";
import { afterEach, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { waitFor } from "../../../support/wait-for.js";
import { type LuaWorld, startLuaWorld } from "./lua-world.js";

let world: LuaWorld | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

const APPS =
  "shop: { guaranteed: 100000, burst: 100000, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } }";

async function start(limits: string, values: number): Promise<LuaWorld> {
  const yaml = `lease: { timeout_ms: 5000 }\nrate_limit_values: ${values}\nlimits: [${limits}]\n`;
  world = await startLuaWorld(APPS, yaml, { workers: 1 });
  return world;
}

/** On a busy machine the store can seem slow for a while. Then requests get 503, which costs nothing, and are repeated. */
async function send({ envoy }: LuaWorld, user: string): Promise<number> {
  for (;;) {
    const { statusCode, body } = await request(envoy.url, { headers: { "x-app-id": "shop", "x-user-id": user } });
    await body.dump();
    if (statusCode !== 503) return statusCode;
  }
}

describeEnvoy("limits in Envoy's generated filter", () => {
  it("values beyond the maximum share one bucket, and none passes freely", async () => {
    const own = await start("{ name: per-user, key: [user], rate: 1/h, on_store_failure: closed }", 20);
    const passed = new Map<string, number>();
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 100; i++) {
        const user = `user-${i}`;
        if ((await send(own, user)) === 200) passed.set(user, (passed.get(user) ?? 0) + 1);
      }
    }
    let twice = 0;
    for (const count of passed.values()) twice += count - 1;
    expect(passed.size).toBeGreaterThanOrEqual(20);
    // Once from the bucket that all further values share.
    expect(twice).toBeLessThanOrEqual(1);
  });

  it("the first request of a value with two limits costs one call, and is charged to both", async () => {
    const limits = [
      "{ name: per-user, key: [user], rate: 100/h, on_store_failure: closed }",
      "{ name: per-ip, key: [ip], rate: 100/h, on_store_failure: closed }",
    ].join(", ");
    const own = await start(limits, 1_000);
    // The first requests of a worker also register it.
    for (let i = 0; i < 5; i++) await send(own, "warm");
    const before = await own.calls();
    for (let i = 0; i < 10; i++) expect(await send(own, `new-${i}`)).toBe(200);
    const after = await own.calls();
    expect(after.checks - before.checks).toBeLessThanOrEqual(10);
  });

  it("values of large limits that are used repeatedly are decided almost without calls of the service", async () => {
    const limits = [
      "{ name: per-user, key: [user], rate: 100000/h, on_store_failure: closed }",
      "{ name: per-ip, key: [ip], rate: 1000000/h, on_store_failure: closed }",
    ].join(", ");
    const own = await start(limits, 1_000);
    const users = Array.from({ length: 20 }, (_, i) => `user-${i}`);
    const sent = async (rounds: number) => {
      for (let i = 0; i < rounds; i++)
        await Promise.all(users.map(async (user) => expect(await send(own, user)).toBe(200)));
    };
    await sent(5);
    await waitFor("leases of all values", async () => {
      const { checks } = await own.calls();
      await sent(1);
      return (await own.calls()).checks === checks;
    });
    const before = await own.calls();
    await sent(50);
    const after = await own.calls();
    expect((after.checks - before.checks) / 1_000).toBeLessThan(0.02);
  });
});
