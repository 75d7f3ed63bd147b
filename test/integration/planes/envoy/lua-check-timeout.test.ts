/** Requests that the service decides too late for Envoy: the filter decides without it, and the request is charged once. */
import { afterEach, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { fetchReply } from "../../../support/http-client.js";
import { pause, waitFor } from "../../../support/wait-for.js";
import { type LuaWorld, startLuaWorld } from "./lua-world.js";

const TIMEOUT_MS = 500;
const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";
/** Requests that arrive while the store does not answer. */
const PARALLEL = 12;

let world: LuaWorld | undefined;
afterEach(async () => {
  world?.redis.resume();
  await world?.stop();
  world = undefined;
});

async function start(policy: string): Promise<LuaWorld> {
  const limit = `{ name: per-user, key: [user], rate: 1000/h, on_store_failure: ${policy} }`;
  const started = await startLuaWorld(
    `shop: { guaranteed: 0.001, burst: 1000, on_store_failure: ${policy}, ${BY_REQUEST} }`,
    `lease: { timeout_ms: ${TIMEOUT_MS}, report_interval_ms: 100 }\nlimits: [${limit}]`,
  );
  world = started;
  return started;
}

async function ask({ envoy }: LuaWorld, user: string): Promise<number> {
  const headers = { "x-app-id": "shop", "x-user-id": user };
  return (await fetchReply(envoy.port, "/", { headers })).status;
}

/** Requests while `stop` is in effect, and what is charged after `go`. The worker and the service have reported everything. */
async function charged(own: LuaWorld, stop: () => void, go: () => void) {
  const checks = async () => (await own.calls()).checks;
  // On a busy machine the store can seem slow: then the filter does not ask the service.
  let users = 0;
  await waitFor("a decision of the service", async () => {
    const before = await checks();
    await ask(own, `user-${users++}`);
    return (await checks()) > before;
  });
  const before = await checks();
  stop();
  const statuses = await Promise.all(Array.from({ length: PARALLEL }, () => ask(own, "ann")));
  expect((await checks()) - before).toBeGreaterThan(0);
  // The service decides later than Envoy.
  await pause(2 * TIMEOUT_MS);
  go();
  const passed = statuses.filter((status) => status === 200).length;
  const id = "limit:per-user:ann";
  const envoyReported = async () => {
    const node = (await own.quota.nodes()).find(({ node }) => node.startsWith("envoy-"));
    const { apps } = node === undefined ? { apps: [] } : await own.quota.ledger(node.node);
    return apps.find(({ app }) => app === id)?.spent ?? 0;
  };
  await waitFor("the worker to report", async () => {
    await pause(100);
    return (await ask(own, "warm")) === 200 && (passed === 0 || (await envoyReported()) > 0);
  });
  await own.service.stop();
  return { passed, statuses, spent: await own.spent(id) };
}

describeEnvoy("a check that Envoy gives up", () => {
  it("because the store does not answer is charged once", async () => {
    const own = await start("open");
    const { passed, spent } = await charged(
      own,
      () => own.redis.pause(),
      () => own.redis.resume(),
    );
    expect(passed).toBe(PARALLEL);
    expect(spent).toBe(PARALLEL);
  });

  it("and refuses is not charged", async () => {
    const own = await start("closed");
    const { statuses, spent } = await charged(
      own,
      () => own.redis.pause(),
      () => own.redis.resume(),
    );
    expect(statuses).toEqual(Array(PARALLEL).fill(503));
    expect(spent).toBe(0);
  });

  it("because the service does not answer is charged once", async () => {
    const own = await start("open");
    const { passed, spent } = await charged(
      own,
      () => own.service.signalAll("SIGSTOP"),
      () => own.service.signalAll("SIGCONT"),
    );
    expect(passed).toBe(PARALLEL);
    expect(spent).toBe(PARALLEL);
  });
});
