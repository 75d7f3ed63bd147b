/** Too much, or too slowly: refused before a token is taken, or cut as soon as it shows. */
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { mirror, startBackend } from "../../../support/http-backend.js";
import { bodyOf, fetchReply, json, openRaw, sendRaw, statusOf } from "../../../support/http-client.js";
import { createCleanup, startProxy } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());
const SHORT = 200;

describe("headers", () => {
  it.each([
    ["too many", "X-A: b\r\n".repeat(101)],
    ["too long", `X-A: ${"b".repeat(20_000)}\r\n`],
    ["a flood without an end", "X-A: b\r\n".repeat(100_000)],
  ])("%s: 431, and the connection is closed", async (_, headers) => {
    const { port, admission } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"] }));
    const text = await sendRaw(port, `GET / HTTP/1.1\r\nHost: a\r\n${headers}\r\n`);
    expect(statusOf(text)).toBe(431);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "headers_too_large", reason: "headers_too_large" });
    expect(admission.arrivals).toHaveLength(0);
  });

  it("that do not come to an end: 408, and no token was taken", async () => {
    const { port, admission } = await cleanup.add(
      startProxy({ targets: ["127.0.0.1:1"], timeouts: { headersMs: SHORT } }),
    );
    const text = await sendRaw(port, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
    expect(statusOf(text)).toBe(408);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "request_timeout", reason: "headers_timeout" });
    expect(admission.arrivals).toHaveLength(0);
  });

  it("up to the limit pass, all of them", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    backend.server.maxHeadersCount = 0;
    const { port } = await cleanup.add(
      startProxy({ targets: [backend.target], limits: { headerCount: 2_200, headerBytes: 32_768 } }),
    );
    const text = await sendRaw(
      port,
      `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${"X: b\r\n".repeat(2_198)}\r\n`,
    );
    expect(text.match(/"X"/g)).toHaveLength(2_198);
  });

  it("of a backend that are too long: 502", async () => {
    const backend = await cleanup.add(
      startBackend((_, response) => response.setHeader("x-a", "b".repeat(100_000)).end()),
    );
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    expect((await fetchReply(port, "/", { method: "POST" })).status).toBe(502);
  });
});

describe("bodies", () => {
  it("that say they are too large: 413, before anything was asked of the decider", async () => {
    const { port, admission } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"], limits: { bodyBytes: 10 } }));
    const text = await sendRaw(port, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n12345678901");
    expect(statusOf(text)).toBe(413);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "content_too_large", reason: "body_too_large" });
    expect(admission.arrivals).toHaveLength(0);
  });

  it("that turn out to be too large: cut on the way, with 413", async () => {
    const left = signal();
    const backend = await cleanup.add(
      startBackend((request) => {
        request.on("error", () => left.resolve());
        request.resume();
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target], limits: { bodyBytes: 10 } }));
    const client = await openRaw(port);
    client.write("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n");
    client.write("3\r\n901\r\n");
    const text = await client.closed();
    expect(statusOf(text)).toBe(413);
    await left.promise;
    const { requestBytes, responseBytes } = await admission.settlement();
    expect(requestBytes).toBeLessThanOrEqual(10);
    expect(responseBytes).toBe(0);
  });

  it("that are refused while they still come: the client can read its answer", async () => {
    const { port } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"], limits: { bodyBytes: 10 } }));
    const client = await openRaw(port);
    const ended = once(client.socket, "end");
    // In one piece, so that bytes are unread at the moment of the answer.
    const head = Buffer.from("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
    client.socket.write(Buffer.concat([head, Buffer.alloc(20_000_000)]));
    await ended;
    expect(statusOf(client.text())).toBe(413);
    expect(JSON.parse(bodyOf(client.text())).reason).toBe("body_too_large");
    client.socket.destroy();
  });

  it("as large as allowed pass", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target], limits: { bodyBytes: 10 } }));
    const reply = await fetchReply(port, "/", { method: "PUT", body: "1234567890" });
    expect(json<{ body: string }>(reply).body).toBe("1234567890");
  });

  it("that stop coming: 408, and what came is settled", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: SHORT } }),
    );
    const text = await sendRaw(port, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n1234");
    expect(statusOf(text)).toBe(408);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "request_timeout", reason: "body_timeout" });
    expect(await admission.settlement()).toMatchObject({ requestBytes: 4, responseBytes: 0 });
  });

  it("that trickle: 408 when the time for the whole request is over", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { headersMs: SHORT, requestMs: 2 * SHORT } }),
    );
    const client = await openRaw(port);
    client.write("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    const drip = setInterval(() => client.write("x"), 10);
    const text = await client.until((received) => received.endsWith("}\n"));
    clearInterval(drip);
    client.socket.destroy();
    expect(statusOf(text)).toBe(408);
    expect(JSON.parse(bodyOf(text)).reason).toBe("body_timeout");
    expect((await admission.settlement()).requestBytes).toBeGreaterThan(0);
  });
});

describe("connections", () => {
  it("on which nothing comes any more are closed", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target], timeouts: { keepAliveMs: SHORT } }));
    const text = await sendRaw(port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(statusOf(text)).toBe(200);
    expect(text).toMatch(/\r\nConnection: keep-alive\r\n/i);
  });

  it("of clients that ask on and on but do not fetch the answers are closed", async () => {
    const backend = await cleanup.add(startBackend((_, response) => void response.end(Buffer.alloc(8_000))));
    const { port, proxy } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: SHORT } }),
    );
    const closed = signal();
    proxy.server.on("connection", (socket) => socket.on("close", () => closed.resolve()));
    const client = await openRaw(port);
    client.socket.pause();
    // Each answer is small enough to be over for the proxy; together they are too much for the sockets' own buffers.
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3_000));
    await closed.promise;
    client.socket.destroy();
  });
});
