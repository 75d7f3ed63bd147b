/** An Envoy that is declared dead after the reply to a message was lost: everything is charged exactly once. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { fetchReply } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";
import { type ModuleWorld, startModuleWorld } from "./module-world.js";

describeEnvoy("an Envoy whose epoch is closed", () => {
  let world: ModuleWorld;
  let passed = 0;
  async function ask() {
    const { status } = await fetchReply(world.envoy.port, "/", { headers: { "x-app-id": "metered" } });
    if (status === 200) passed++;
    return status;
  }
  const registered = async () => (await world.quota.nodes()).find(({ node }) => node.startsWith("envoy-"))?.node;

  beforeAll(async () => {
    const metered = "{ guaranteed: 10000, burst: 10000, profile: { based_on: iops, bandwidth: 0 } }";
    world = await startModuleWorld(`metered: ${metered}`, "lease: { report_interval_ms: 1000 }", { nodeTtlMs: 3_000 });
    await waitFor("the first sync", async () => (await ask()) === 200 && registered());
  });
  afterAll(() => world?.stop());

  it("charges all spending exactly once, including that of a message whose reply was lost", async () => {
    let isLost = false;
    void world.link.loseReply("HTTP/1.1 200").then(() => (isLost = true));
    await waitFor("a message without a reply", async () => (await ask()) === 200 && isLost);
    // It is paused for longer than a node may be silent.
    world.envoy.signal("SIGSTOP");
    await waitFor("the node to be declared dead", async () => (await registered()) === undefined);
    world.envoy.signal("SIGCONT");

    await waitFor("the node to be registered again", async () => (await ask()) === 200 && registered());
    await waitFor("all spending to be reported", async () => (await world.spent("metered")) >= passed);
    expect(await world.spent("metered")).toBe(passed);
  });
});
