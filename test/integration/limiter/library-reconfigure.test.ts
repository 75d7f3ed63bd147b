/** The limits of a running limiter can be changed; invalid limits change nothing. */
import { afterEach, expect, it } from "vitest";
import { createLimiter } from "../../../src/limiter/library/library.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});

async function start(apps: Parameters<typeof createLimiter>[0]["apps"]) {
  const limiter = await createLimiter({ apps });
  endings.push(() => limiter.close());
  return limiter;
}

it("a new burst applies to the next decision; a removed app is refused", async () => {
  const limiter = await start({ team: { guaranteed: 100, burst: 200 } });
  expect(await limiter.check({ app: "team" })).toMatchObject({ allowed: true, limit: 200 });
  limiter.reconfigure({ apps: { team: { guaranteed: 10, burst: 20 }, other: { guaranteed: 1 } } });
  expect(await limiter.check({ app: "team" })).toMatchObject({ allowed: true, limit: 20, rate: 10 });
  limiter.reconfigure({ apps: { other: { guaranteed: 1 } } });
  expect(await limiter.check({ app: "team" })).toMatchObject({ allowed: false, code: "unknown_app" });
});

it("invalid limits are rejected with their name, and the old ones stay", async () => {
  const limiter = await start({ team: { guaranteed: 100, burst: 200 } });
  expect(() => limiter.reconfigure({ apps: { team: { guaranteed: -1 } } })).toThrow("apps.team.guaranteed");
  expect(() => limiter.reconfigure({ apps: { 'a"\r\n': { guaranteed: 1 } } })).toThrow("apps: a name must be");
  expect(await limiter.check({ app: "team" })).toMatchObject({ allowed: true, limit: 200 });
});

it("new limits of the cluster apply, and stay if omitted", async () => {
  const limiter = await start({ team: { guaranteed: 100, burst: 200 } });
  limiter.reconfigure({ apps: { team: { guaranteed: 100, burst: 200 } }, cluster: { capacity: 3 } });
  expect(await limiter.check({ app: "team", method: "PUT" })).toMatchObject({ code: "cost_exceeds_capacity" });
  limiter.reconfigure({ apps: { team: { guaranteed: 100, burst: 300 } } });
  expect(await limiter.check({ app: "team", method: "PUT" })).toMatchObject({
    code: "cost_exceeds_capacity",
    limit: 2,
  });
});
