/** Envoy with the dynamic module rejects oversized bodies and unsupported upgrades like the Node gateway, and charges bodies without Content-Length. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { bodyOf, fetchReply, openRaw, sendRaw } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";
import { upgradeHead } from "../../../support/ws-backend.js";
import { type ModuleWorld, startModuleWorld } from "./module-world.js";

/** By default, Envoy waits a second before it closes the connection of a rejected request. */
const closeSoon = (text: string) =>
  text.replace(/^( *)stat_prefix: "tollgate"$/m, '$&\n$1delayed_close_timeout: "0.02s"');

const MOST = 500_000;
const KIB_64 = 65_536;

describeEnvoy("Envoy with the dynamic module, like the Node gateway,", () => {
  let world: ModuleWorld;

  beforeAll(async () => {
    const sized = "{ guaranteed: 100000, burst: 100000 }";
    world = await startModuleWorld(
      `default: ${sized}, refused: ${sized}, broken: ${sized}, got: ${sized}, put: ${sized}, whole: ${sized}, less: ${sized}, late: ${sized}`,
      `request_limits: { body_bytes: ${MOST} }\nlease: { report_interval_ms: 100 }`,
      { edit: closeSoon, path: "/known/" },
    );
  });
  afterAll(() => world?.stop());

  /** The parts of the only response that matter to a client. */
  async function answer(port: number, bytes: string) {
    const text = await sendRaw(port, bytes);
    const header = (name: string) => new RegExp(`^${name}: (.*)\r$`, "im").exec(text)?.[1];
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1]);
    return { status, body: bodyOf(text), type: header("content-type"), connection: header("connection") };
  }

  const put = (length: string, app = "refused") =>
    `PUT /known/ HTTP/1.1\r\nHost: a\r\nX-App-Id: ${app}\r\nContent-Length: ${length}\r\n\r\nabc`;

  it.each([
    ["a body with a Content-Length above the limit", put(String(MOST + 1)), 413, "body_too_large"],
    ["a body with a Content-Length of 2^53 - 1", put("9007199254740991"), 413, "body_too_large"],
    ["a body above the limit with an invalid app id", put(String(MOST + 1), "a{b}"), 413, "body_too_large"],
    ["an upgrade on a route without connections", upgradeHead({ path: "/known/" }), 501, "unsupported_upgrade"],
    ["an unsupported upgrade", upgradeHead({ path: "/known/", protocol: "gopher" }), 501, "unsupported_upgrade"],
    ["an upgrade with an invalid app id", upgradeHead({ path: "/known/", more: "X-App-Id: a{b}\r\n" }), 501, "unsupp"],
  ])("rejects %s", async (_what, bytes, status, reason) => {
    const onNode = await answer(Number(new URL(world.service.url).port), bytes);
    expect(onNode).toMatchObject({ status, body: expect.stringContaining(reason) });
    expect(await answer(world.envoy.port, bytes)).toEqual(onNode);
  });

  it("charges nothing for rejected bodies, and admits a body of exactly the maximum size", async () => {
    const all = { "x-app-id": "whole" };
    const reply = await fetchReply(world.envoy.port, "/known/", {
      ...{ method: "PUT", headers: all, body: "u".repeat(MOST) },
    });
    expect([reply.status, reply.headers["x-ratelimit-cost"]]).toEqual([200, String(5 + Math.ceil(MOST / KIB_64))]);
    await booked("whole", 5 + Math.ceil(MOST / KIB_64));
    expect(await world.spent("refused")).toBe(0);
  });

  it("responds with 404 to an upgrade without a route", async () => {
    const bytes = upgradeHead({ path: "/unknown", protocol: "gopher" });
    const onNode = await answer(Number(new URL(world.service.url).port), bytes.replace("keep-alive", "close"));
    expect(await answer(world.envoy.port, bytes)).toEqual(onNode);
    expect(onNode).toMatchObject({ status: 404, body: expect.stringContaining("no_route") });
  });

  it.each([
    ["got", "GET", 1],
    ["put", "PUT", 5],
  ])("charges app %s for the actual size of a %s body without Content-Length", async (app, method, base) => {
    const headers = { "x-app-id": app, "transfer-encoding": "chunked" };
    const body = "u".repeat(3 * KIB_64);
    // The first request waits for the lease of its app while its body arrives; the second does not wait.
    for (let i = 0; i < 2; i++) {
      expect((await fetchReply(world.envoy.port, "/known/", { method, headers, body })).status).toBe(200);
    }
    await booked(app, 2 * (base + 4));
  });

  it("passes on a body that arrives while its request waits, also if it fills Envoy's buffers", async () => {
    const headers = { "x-app-id": "late", "transfer-encoding": "chunked" };
    const body = "u".repeat(3 * KIB_64);
    // Messages follow each other at once while requests wait, so the second one may wait for less than a reply takes.
    world.link.delayMs = 300;
    try {
      await fetchReply(world.envoy.port, "/known/", { headers: { "x-app-id": "put" } });
      const { status } = await fetchReply(world.envoy.port, "/known/", { method: "PUT", headers, body });
      expect(status).toBe(200);
    } finally {
      world.link.delayMs = 0;
    }
    await booked("late", 5 + 4);
  });

  it("charges an aborted body for the bytes that arrived", async () => {
    // After this request the app has a lease, so the next one does not wait.
    await fetchReply(world.envoy.port, "/known/", { headers: { "x-app-id": "broken" } });
    const before = await passed();
    const client = await openRaw(world.envoy.port);
    const head = "GET /known/ HTTP/1.1\r\nHost: a\r\nX-App-Id: broken\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write(`${head}${(5 * KIB_64).toString(16)}\r\n${"u".repeat(5 * KIB_64)}`);
    await waitFor("the backend to be sent all bytes", async () => (await passed()) >= before + 5 * KIB_64);
    client.socket.destroy();
    await booked("broken", 1 + 1 + (1 + 5));
  });

  it("refunds an aborted body that is smaller than those before it", async () => {
    const headers = { "x-app-id": "less", "transfer-encoding": "chunked" };
    const body = "u".repeat(3 * KIB_64);
    for (let i = 0; i < 3; i++) await fetchReply(world.envoy.port, "/known/", { headers, body });
    await booked("less", 3 * (1 + 4));
    const before = await passed();
    const client = await openRaw(world.envoy.port);
    const head = "GET /known/ HTTP/1.1\r\nHost: a\r\nX-App-Id: less\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write(`${head}3e8\r\n${"u".repeat(1_000)}`);
    await waitFor("the backend to be sent the bytes", async () => (await passed()) >= before + 1_000);
    client.socket.destroy();
    await booked("less", 3 * (1 + 4) + (1 + 1));
  });

  async function booked(app: string, tokens: number): Promise<void> {
    await waitFor(`${tokens} to be booked for ${app}`, async () => (await world.spent(app)) === tokens);
  }

  /** Bytes that were sent to the backend: bodies and request heads. */
  async function passed(): Promise<number> {
    const body = await world.envoy.admin("/stats?filter=tx_bytes_total");
    return Number(/^cluster\.tollgate_backend\.upstream_cx_tx_bytes_total: (\d+)/m.exec(body)?.[1] ?? 0);
  }
});
