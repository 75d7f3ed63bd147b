/** Size limits and timeouts of clients: rejected before the decision where possible, otherwise aborted as soon as the limit is exceeded. */
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
    ["100,000 of them", "X-A: b\r\n".repeat(100_000)],
  ])("%s: 431 before the decision, and the connection is closed", async (_, headers) => {
    const { port, admission } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"] }));
    const text = await sendRaw(port, `GET / HTTP/1.1\r\nHost: a\r\n${headers}\r\n`);
    expect(statusOf(text)).toBe(431);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "headers_too_large", reason: "headers_too_large" });
    expect(admission.arrivals).toHaveLength(0);
  });

  it("that are not complete in time: 408 before the decision", async () => {
    const { port, admission } = await cleanup.add(
      startProxy({ targets: ["127.0.0.1:1"], timeouts: { headersMs: SHORT } }),
    );
    const text = await sendRaw(port, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
    expect(statusOf(text)).toBe(408);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "request_timeout", reason: "headers_timeout" });
    expect(admission.arrivals).toHaveLength(0);
  });

  it("up to the limit are all forwarded", async () => {
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

  it("of a backend that exceed the limit: 502", async () => {
    const backend = await cleanup.add(
      startBackend((_, response) => response.setHeader("x-a", "b".repeat(100_000)).end()),
    );
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    expect((await fetchReply(port, "/", { method: "POST" })).status).toBe(502);
  });
});

describe("bodies", () => {
  it("with a Content-Length above the limit: 413 before the decision", async () => {
    const { port, admission } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"], limits: { bodyBytes: 10 } }));
    const text = await sendRaw(port, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n12345678901");
    expect(statusOf(text)).toBe(413);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "content_too_large", reason: "body_too_large" });
    expect(admission.arrivals).toHaveLength(0);
  });

  it("without a Content-Length that exceed the limit: 413, and the request to the backend is aborted", async () => {
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

  it("that are rejected while the client still sends: the client can read the response", async () => {
    const { port } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"], limits: { bodyBytes: 10 } }));
    const client = await openRaw(port);
    const ended = once(client.socket, "end");
    // In one write, so that there are unread bytes when the proxy responds.
    const head = Buffer.from("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
    client.socket.write(Buffer.concat([head, Buffer.alloc(20_000_000)]));
    await ended;
    expect(statusOf(client.text())).toBe(413);
    expect(JSON.parse(bodyOf(client.text())).reason).toBe("body_too_large");
    client.socket.destroy();
  });

  it("of exactly the maximum size are forwarded", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target], limits: { bodyBytes: 10 } }));
    const reply = await fetchReply(port, "/", { method: "PUT", body: "1234567890" });
    expect(json<{ body: string }>(reply).body).toBe("1234567890");
  });

  it("that stall: 408, and the received bytes are settled", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: SHORT } }),
    );
    const text = await sendRaw(port, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n1234");
    expect(statusOf(text)).toBe(408);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "request_timeout", reason: "body_timeout" });
    expect(await admission.settlement()).toMatchObject({ requestBytes: 4, responseBytes: 0 });
  });

  it("that arrive slowly: 408 when the timeout for the whole request expires", async () => {
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
  it("that are idle are closed after the keep-alive timeout", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target], timeouts: { keepAliveMs: SHORT } }));
    const text = await sendRaw(port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(statusOf(text)).toBe(200);
    expect(text).toMatch(/\r\nConnection: keep-alive\r\n/i);
  });

  it("of clients that pipeline requests and do not read the responses are closed", async () => {
    const backend = await cleanup.add(startBackend((_, response) => void response.end(Buffer.alloc(8_000))));
    const { port, proxy } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: SHORT } }),
    );
    const closed = signal();
    proxy.server.on("connection", (socket) => socket.on("close", () => closed.resolve()));
    const client = await openRaw(port);
    client.socket.pause();
    // Each response is small enough to be complete for the proxy; together they exceed the socket buffers.
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3_000));
    await closed.promise;
    client.socket.destroy();
  });
});
