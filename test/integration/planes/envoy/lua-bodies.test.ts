/** Bodies and upgrades that Envoy refuses as the Node gateway does, and bodies that do not say how long they are: charged all the same. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { bodyOf, fetchReply, openRaw, sendRaw } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";
import { upgradeHead } from "../../../support/ws-backend.js";
import { type LuaWorld, startLuaWorld } from "./lua-world.js";

/** Envoy waits a second before it closes a connection whose request it refused. */
const closeSoon = (text: string) =>
  text.replace(/^( *)stat_prefix: "tollgate"$/m, '$&\n$1delayed_close_timeout: "0.02s"');

const MOST = 500_000;
const KIB_64 = 65_536;

describeEnvoy("Envoy's generated filter, like the Node gateway,", () => {
  let world: LuaWorld;

  beforeAll(async () => {
    const sized = "{ guaranteed: 100000, burst: 100000 }";
    world = await startLuaWorld(
      `default: ${sized}, refused: ${sized}, broken: ${sized}, got: ${sized}, put: ${sized}, whole: ${sized}`,
      `limits: { body_bytes: ${MOST} }`,
      { edit: closeSoon, path: "/known/" },
    );
  }, 60_000);
  afterAll(() => world?.stop());

  /** Of the only answer: what a client goes by. */
  async function answer(port: number, bytes: string) {
    const text = await sendRaw(port, bytes);
    const header = (name: string) => new RegExp(`^${name}: (.*)\r$`, "im").exec(text)?.[1];
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1]);
    return { status, body: bodyOf(text), type: header("content-type"), connection: header("connection") };
  }

  const put = (length: string, app = "refused") =>
    `PUT /known/ HTTP/1.1\r\nHost: a\r\nX-App-Id: ${app}\r\nContent-Length: ${length}\r\n\r\nabc`;

  it.each([
    ["a body that says it is too large", put(String(MOST + 1)), 413, "body_too_large"],
    ["a body that says it is much too large", put("9007199254740991"), 413, "body_too_large"],
    ["the same of an app that is none", put(String(MOST + 1), "a{b}"), 413, "body_too_large"],
    ["an upgrade where the route has no connections", upgradeHead({ path: "/known/" }), 501, "unsupported_upgrade"],
    ["one to another protocol", upgradeHead({ path: "/known/", protocol: "gopher" }), 501, "unsupported_upgrade"],
    ["one of an app that is none", upgradeHead({ path: "/known/", more: "X-App-Id: a{b}\r\n" }), 501, "unsupp"],
  ])("refuses %s", async (_what, bytes, status, reason) => {
    const onNode = await answer(Number(new URL(world.service.url).port), bytes);
    expect(onNode).toMatchObject({ status, body: expect.stringContaining(reason) });
    expect(await answer(world.envoy.port, bytes)).toEqual(onNode);
  });

  it("charges nothing for what it refuses so, and lets pass what is as large as allowed", async () => {
    const all = { "x-app-id": "whole" };
    const reply = await fetchReply(world.envoy.port, "/known/", {
      ...{ method: "PUT", headers: all, body: "u".repeat(MOST) },
    });
    expect([reply.status, reply.headers["x-ratelimit-cost"]]).toEqual([200, String(5 + Math.ceil(MOST / KIB_64))]);
    await booked("whole", 5 + Math.ceil(MOST / KIB_64));
    expect(await world.spent("refused")).toBe(0);
  });

  it("says of an upgrade without a route that there is none", async () => {
    const bytes = upgradeHead({ path: "/unknown", protocol: "gopher" });
    const onNode = await answer(Number(new URL(world.service.url).port), bytes.replace("keep-alive", "close"));
    expect(await answer(world.envoy.port, bytes)).toEqual(onNode);
    expect(onNode).toMatchObject({ status: 404, body: expect.stringContaining("no_route") });
  });

  it.each([
    ["got", "GET", 1],
    ["put", "PUT", 5],
  ])("charges a %s body that does not say how long it is for what it was", async (app, method, base) => {
    const headers = { "x-app-id": app, "transfer-encoding": "chunked" };
    const body = "u".repeat(3 * KIB_64);
    // The first waits for the lease of its app, and its body comes meanwhile; the second does not wait.
    for (let i = 0; i < 2; i++) {
      expect((await fetchReply(world.envoy.port, "/known/", { method, headers, body })).status).toBe(200);
    }
    await booked(app, 2 * (base + 4));
  });

  it("charges a body that breaks off, too, for what came", async () => {
    // Its app has a lease then, so that the other does not wait.
    await fetchReply(world.envoy.port, "/known/", { headers: { "x-app-id": "broken" } });
    const before = await passed();
    const client = await openRaw(world.envoy.port);
    const head = "GET /known/ HTTP/1.1\r\nHost: a\r\nX-App-Id: broken\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write(`${head}${(5 * KIB_64).toString(16)}\r\n${"u".repeat(5 * KIB_64)}`);
    await waitFor("all of it to have passed", async () => (await passed()) >= before + 5 * KIB_64);
    client.socket.destroy();
    await booked("broken", 1 + 1 + (1 + 5));
  });

  /** Envoy reports with the requests that come. */
  async function booked(app: string, tokens: number): Promise<void> {
    await waitFor(`${tokens} to be booked for ${app}`, async () => {
      await fetchReply(world.envoy.port, "/known/", { headers: { "x-app-id": "default" } });
      return (await world.spent(app)) === tokens;
    });
  }

  /** Bytes of bodies, and a little, that the backend was sent. */
  async function passed(): Promise<number> {
    const { body } = await fetchReply(Number(new URL(world.envoy.adminUrl).port), "/stats?filter=tx_bytes_total");
    return Number(/^cluster\.tollgate_backend\.upstream_cx_tx_bytes_total: (\d+)/m.exec(body)?.[1] ?? 0);
  }
});
