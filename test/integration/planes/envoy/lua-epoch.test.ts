/** An Envoy worker that is declared dead while the reply to its last report is lost: everything is charged exactly once. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { fetchReply } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";
import { type LuaWorld, startLuaWorld } from "./lua-world.js";

describeEnvoy("an Envoy worker whose epoch is closed", () => {
  let world: LuaWorld;
  let passed = 0;
  async function ask() {
    const { status } = await fetchReply(world.envoy.port, "/", { headers: { "x-app-id": "metered" } });
    if (status === 200) passed++;
    return status;
  }
  const registered = async () => (await world.quota.nodes()).find(({ node }) => node.startsWith("envoy-"))?.node;

  beforeAll(async () => {
    const metered = "{ guaranteed: 10000, burst: 10000, profile: { based_on: iops, bandwidth: 0 } }";
    world = await startLuaWorld(`metered: ${metered}`, "lease: { report_interval_ms: 1000 }", { nodeTtlMs: 3_000 });
    await waitFor("the first sync of the filter", async () => (await ask()) === 200 && registered());
  });
  afterAll(() => world?.stop());

  it("charges all spending exactly once, including the report whose reply was lost", async () => {
    let isLost = false;
    void world.link.loseReply("HTTP/1.1 200").then(() => (isLost = true));
    await waitFor("a report without a reply", async () => (await ask()) === 200 && isLost);
    const reported = await world.spent("metered");
    expect(reported).toBeGreaterThan(0);
    await waitFor("the worker to be declared dead", async () => (await registered()) === undefined);

    expect(await ask()).toBe(200);
    await waitFor("the worker to be registered again", async () => (await ask()) === 200 && registered());
    // The last requests are reported by later ones.
    await waitFor("a report of the new epoch", async () => {
      await ask();
      return (await world.spent("metered")) > passed - 2;
    });
    expect(await world.spent("metered")).toBeLessThanOrEqual(passed);
  });
});
