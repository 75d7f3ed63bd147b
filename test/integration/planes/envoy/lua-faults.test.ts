/** Faults around the generated filter: clients that disconnect, an unavailable service, and errors in the script itself. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { fetchReply, json, openRaw } from "../../../support/http-client.js";
import { pause, waitFor } from "../../../support/wait-for.js";
import { type LuaWorld, startLuaWorld } from "./lua-world.js";

const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";
const TIMEOUT_MS = 500;
/** Makes the script throw at the start of admission for requests with the header x-break. */
const breakable = (text: string) =>
  text.replace("function admit(handle)\n", '$&    if handle:headers():get("x-break") then error("broken") end\n');

describeEnvoy("Envoy's generated filter", () => {
  let world: LuaWorld;
  let passed = 0;
  async function ask(app: string, headers: Record<string, string> = {}) {
    const reply = await fetchReply(world.envoy.port, "/", { headers: { "x-app-id": app, ...headers } });
    if (app === "metered" && reply.status === 200) passed++;
    return reply;
  }
  async function ledger() {
    const node = (await world.quota.nodes()).find(({ node }) => node.startsWith("envoy-"))!;
    const { apps } = await world.quota.ledger(node.node);
    return apps.find(({ app }) => app === "metered")!;
  }

  beforeAll(async () => {
    world = await startLuaWorld(
      `default: { guaranteed: 1000 }, metered: { guaranteed: 10000, burst: 10000, ${BY_REQUEST} }, ` +
        `open: { guaranteed: 10, burst: 10, on_store_failure: open, ${BY_REQUEST} }, ` +
        `closed: { guaranteed: 1000, burst: 1000, on_store_failure: closed, ${BY_REQUEST} }`,
      `lease: { timeout_ms: ${TIMEOUT_MS}, report_interval_ms: 1000 }\nfail_open_tokens: 5`,
      { edit: breakable },
    );
    await waitFor("the first sync of the filter", async () => (await ask("metered")).status === 200);
  });
  afterAll(() => world?.stop());

  it("returns the unused tokens of a past burst with the next requests", async () => {
    for (let i = 0; i < 400; i++) await ask("metered");
    const { granted: before, spent: reported, returned: earlier } = await ledger();
    expect(before - reported - earlier).toBeGreaterThan(10);
    await waitFor("all unused tokens to be returned", async () => {
      await pause(1_200);
      await ask("metered");
      const { granted, returned, spent } = await ledger();
      return returned > earlier && granted - returned - spent === 0;
    });
  });

  it("admits requests and reports all spending after a client disconnects while its request waits for a sync", async () => {
    await pause(1_100);
    world.link.delayMs = 300;
    const before = await world.calls();
    const client = await openRaw(world.envoy.port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\nX-App-Id: metered\r\n\r\n");
    await waitFor("its sync to be sent", async () => (await world.calls()).syncs > before.syncs);
    client.socket.destroy();
    const replies = await Promise.all(Array.from({ length: 10 }, () => ask("metered")));
    expect(replies.map(({ status }) => status)).toEqual(Array(10).fill(200));
    world.link.delayMs = 0;
    const { syncs } = await world.calls();
    await waitFor("another sync", async () => {
      await ask("metered");
      return (await world.calls()).syncs > syncs;
    });
    await pause(1_100);
    await ask("metered");
    await waitFor("all spending to be booked", async () => {
      await pause(1_050);
      await ask("metered");
      // The current request is reported with the next sync, and some requests were decided by the service itself.
      const node = await ledger();
      const elsewhere = (await world.calls()).checks;
      return node.spent <= passed && node.spent >= passed - 2 - elsewhere;
    });
  });

  it("responds with 503 and does not call the backend when the script fails", async () => {
    const reply = await ask("metered", { "x-break": "yes" });
    expect(reply.status).toBe(503);
    expect(json(reply)).toEqual({ error: "service_unavailable", reason: "plane_error" });
    expect(reply.headers["x-seen"]).toBeUndefined();
    await waitFor("the log line", () => world.envoy.log().includes("broken"));
    expect((await ask("metered")).status).toBe(200);
  });

  it("applies on_store_failure of each app while the service is unavailable, never responds with 429, and recovers", async () => {
    expect((await ask("closed")).status).toBe(200);
    world.service.signalAll("SIGSTOP");
    try {
      await waitFor("the closed app to be refused", async () => (await ask("closed")).status === 503);
      const open = await Promise.all(Array.from({ length: 40 }, () => ask("open")));
      expect(new Set(open.map(({ status }) => status))).toEqual(new Set([200, 503]));
      const refused = await ask("closed");
      expect(refused.status).toBe(503);
      expect(json<{ reason: string }>(refused).reason).toBe("store_unavailable");
    } finally {
      world.service.signalAll("SIGCONT");
    }
    await waitFor("the app to be admitted", async () => (await ask("closed")).status === 200);
  });
});
