/** Values of limits in Envoy's dynamic module: bounded in number. */
import { request } from "undici";
import { afterEach, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type ModuleWorld, startModuleWorld } from "./module-world.js";

let world: ModuleWorld | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

const APPS =
  "shop: { guaranteed: 100000, burst: 100000, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } }";

async function start(limits: string, values: number): Promise<ModuleWorld> {
  const yaml = `lease: { timeout_ms: 5000 }\nrate_limit_values: ${values}\nlimits: [${limits}]\n`;
  world = await startModuleWorld(APPS, yaml, { workers: 1 });
  return world;
}

/** On a busy machine the store can seem slow for a while. Then requests get 503, which costs nothing, and are repeated. */
async function send({ envoy }: ModuleWorld, user: string): Promise<number> {
  for (;;) {
    const { statusCode, body } = await request(envoy.url, { headers: { "x-app-id": "shop", "x-user-id": user } });
    await body.dump();
    if (statusCode !== 503) return statusCode;
  }
}

describeEnvoy("limits in Envoy's dynamic module", () => {
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
});
