/** Ends of HTTP/2 connections of the gateway: timeouts, clients that do not read or do not follow the protocol, and drain. */
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { constants } from "node:http2";
import { afterEach, expect, it } from "vitest";
import { startBackend } from "../../../support/http-backend.js";
import { createCleanup, type TestProxyOptions } from "../../../support/http-proxy.js";
import { ACK, END_STREAM, headersFrames, http2Frame, prefaceWith, SETTINGS } from "../../../support/http2-frames.js";
import { getHead } from "../../../support/http2-heads.js";
import { answerOf, http2, type SecureProxy, startSecureProxy } from "../../../support/http2-proxy.js";
import { waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

async function start(listener: RequestListener, options: TestProxyOptions = {}): Promise<SecureProxy> {
  const backend = await cleanup.add(startBackend(listener));
  return cleanup.add(startSecureProxy({ targets: [backend.target], ...options }));
}

const ok: RequestListener = (_, response) => response.end("ok");

it("a connection that sends nothing, half a head, or no acknowledgement of the settings is closed", async () => {
  const proxy = await start(() => {}, { timeouts: { headersMs: 300 } });
  const halfHead = http2Frame(1, 0, 1, getHead("/").subarray(0, 10));
  // Without acknowledgement, but with a running request.
  const running = headersFrames(1, getHead("/"), END_STREAM);
  for (const bytes of [
    Buffer.alloc(0),
    prefaceWith(),
    Buffer.concat([prefaceWith(), halfHead]),
    Buffer.concat([prefaceWith(), running]),
  ]) {
    const socket = await proxy.connectRaw();
    socket.resume();
    socket.write(bytes);
    await once(socket, "close");
  }
  await waitFor("all to be forgotten", () => proxy.proxy.openConnections() === 0);
});

it("an idle connection is closed with GOAWAY, also if the client sends pings", async () => {
  const proxy = await start(ok, { timeouts: { keepAliveMs: 300 } });
  const session = proxy.connect();
  expect(await http2(session, {})).toMatchObject({ status: 200 });
  const pings = setInterval(() => session.destroyed || session.closed || session.ping(() => {}), 20);
  const [code] = (await once(session, "goaway")) as [number];
  clearInterval(pings);
  expect(code).toBe(constants.NGHTTP2_NO_ERROR);
  await waitFor("the connection to be closed", () => proxy.proxy.openConnections() === 0);
});

it("uploads that stop, are too slow, or last too long get 408; the connection stays usable", async () => {
  const backend = await cleanup.add(
    startBackend((request, response) => {
      request.resume();
      if (request.method === "GET") response.end("ok");
    }),
  );
  const given = {
    routes: [{ path: "/", upstream: "backend" }],
    upstreams: { backend: { targets: [backend.target] } },
  };
  const proxy = await cleanup.add(startSecureProxy({ ...given, timeouts: { bodyIdleMs: 300, bodyRateMs: 100_000 } }));
  const session = proxy.connect();
  const stops = session.request({ ":method": "POST" });
  stops.write("a");
  expect(await answerOf(stops)).toMatchObject({ status: 408 });
  for (const timeouts of [{ bodyRateMs: 200 }, { requestMs: 200 }]) {
    proxy.proxy.reconfigure({ ...given, timeouts: { bodyRateMs: 100_000, ...timeouts } });
    const slow = session.request({ ":method": "POST" });
    const drip = setInterval(() => slow.closed || slow.write("a"), 50);
    expect(await answerOf(slow)).toMatchObject({ status: 408 });
    clearInterval(drip);
  }
  expect(await http2(session, {})).toMatchObject({ status: 200, body: "ok" });
});

it("a response that the client does not read is reset; other streams continue", async () => {
  const proxy = await start(
    (request, response) => (request.url === "/large" ? response.end(Buffer.alloc(2_000_000)) : response.end("ok")),
    { timeouts: { bodyIdleMs: 300 } },
  );
  const session = proxy.connect();
  const unread = session.request({ ":path": "/large" });
  unread.on("error", () => {});
  await once(unread, "response");
  await waitFor("the reset", () => unread.closed);
  expect(unread.rstCode).toBe(constants.NGHTTP2_INTERNAL_ERROR);
  expect(await http2(session, {})).toMatchObject({ status: 200 });
});

it("a client that does not read its connection loses it", async () => {
  const proxy = await start((_, response) => response.end(Buffer.alloc(30_000_000)), {
    timeouts: { bodyIdleMs: 300 },
  });
  const socket = await proxy.connectRaw();
  socket.pause();
  const settings = prefaceWith({ 4: 0x7fffffff });
  const window = http2Frame(8, 0, 0, Buffer.from([0x7f, 0, 0, 0]));
  socket.write(
    Buffer.concat([settings, http2Frame(SETTINGS, ACK, 0), window, headersFrames(1, getHead("/"), END_STREAM)]),
  );
  await waitFor("the request", () => proxy.admission.arrivals.length === 1);
  await waitFor("the connection to be closed", () => proxy.proxy.openConnections() === 0);
  expect(await proxy.admission.settlement()).toBeDefined();
});

it("drains: running streams finish, new ones are refused so that the client can repeat them, then the connection ends", async () => {
  const waiting: (() => void)[] = [];
  const proxy = await start((_, response) => waiting.push(() => response.end("done")));
  const session = proxy.connect();
  const running = http2(session, {});
  await waitFor("the request", () => waiting.length === 1);
  const goaway = once(session, "goaway");
  const drained = proxy.proxy.drain(60_000);
  const [code, last] = (await goaway) as [number, number];
  expect([code, last]).toEqual([constants.NGHTTP2_NO_ERROR, 1]);
  waiting[0]!();
  expect(await running).toMatchObject({ status: 200, body: "done" });
  await drained;
  expect(proxy.admission.arrivals).toHaveLength(1);
});

it("at the end of the grace period, open streams are closed and settled", async () => {
  const proxy = await start((_, response) => response.write("first"));
  const session = proxy.connect();
  const stream = session.request({});
  const answer = answerOf(stream);
  await once(stream, "data");
  await proxy.proxy.drain(100);
  expect((await answer).status).toBe(200);
  expect(await proxy.admission.settlement()).toMatchObject({ responseBytes: 5 });
});
