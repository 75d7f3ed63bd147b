/** However an exchange ends, the other side is notified, and the exchange is settled once with the bytes that were transferred. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import type { Verdict } from "../../../../src/planes/node/http/request-admission.js";
import { startBackend, startRawBackend } from "../../../support/http-backend.js";
import { bodyOf, fetchReply, json, open, openRaw, statusOf } from "../../../support/http-client.js";
import { admitted, createCleanup, startProxy } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

/** Well below the test timeout, and longer than typical pauses of a busy machine. */
const SHORT = 200;

describe("a client that disconnects", () => {
  it("during a response: the backend's response is aborted, and the bytes sent so far are settled", async () => {
    const left = signal<void>();
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.on("close", left.resolve);
        response.write("part");
      }),
    );
    const { port, admission, lines } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.until((text) => text.includes("part"));
    client.socket.destroy();
    await left.promise;
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 4 });
    expect(lines).toMatchObject([{ level: "info", message: "client disconnected" }]);
  });

  it("during its request: the request to the backend is aborted, and the bytes received so far are settled", async () => {
    const got = signal<void>();
    const left = signal<void>();
    const backend = await cleanup.add(
      startBackend((request) => {
        request.on("data", () => got.resolve());
        request.on("error", () => left.resolve());
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n1234567890");
    await got.promise;
    client.socket.destroy();
    await left.promise;
    expect(await admission.settlement()).toMatchObject({ requestBytes: 10, responseBytes: 0 });
  });

  it("while the backend has not responded: the request to the backend is aborted and settled with 0 bytes", async () => {
    const arrived = signal<ServerResponse>();
    const backend = await cleanup.add(startBackend((_, response) => arrived.resolve(response)));
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const closed = once(await arrived.promise, "close");
    client.socket.resetAndDestroy();
    await closed;
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
  });

  it("during the decision: the exchange is settled with 0 bytes as soon as it is admitted", async () => {
    const decision = signal<Verdict>();
    const asked = signal<void>();
    const { port, admission, proxy } = await cleanup.add(
      startProxy({
        targets: ["127.0.0.1:1"],
        decide: () => {
          asked.resolve();
          return decision.promise;
        },
      }),
    );
    const connection = once(proxy.server, "connection");
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await asked.promise;
    const [socket] = (await connection) as [Socket];
    const closed = once(socket, "close");
    client.socket.destroy();
    await closed;
    decision.resolve(admitted());
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
  });

  it("with several pipelined requests: each is settled", async () => {
    let waiting = 0;
    const all = signal<void>();
    const backend = await cleanup.add(
      startBackend(() => {
        if (++waiting === 3) all.resolve();
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    await all.promise;
    client.socket.destroy();
    await admission.settlement(2);
  });

  it("while queued for a backend connection: the request is not sent to the backend", async () => {
    const first = signal<ServerResponse>();
    const urls: string[] = [];
    const backend = await cleanup.add(
      startBackend((request, response) => {
        urls.push(request.url!);
        if (request.url === "/first") first.resolve(response);
        else response.end();
      }),
    );
    const { port, admission } = await cleanup.add(
      startProxy({ targets: [backend.target], upstream: { connections: 1 } }),
    );
    const replied = fetchReply(port, "/first");
    const response = await first.promise;
    const client = await openRaw(port);
    client.write("POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n123");
    client.socket.end();
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
    response.end();
    await replied;
    await fetchReply(port, "/third");
    expect(urls).toEqual(["/first", "/third"]);
  });
});

describe("a backend that fails", () => {
  it("before its response: the client gets 502", async () => {
    const backend = await cleanup.add(startRawBackend((socket) => socket.once("data", () => socket.destroy())));
    const { port, admission, lines } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const reply = await fetchReply(port, "/x?secret=1", { method: "POST", body: "abc" });
    expect(reply.status).toBe(502);
    expect(json(reply)).toEqual({ error: "bad_gateway", reason: "upstream_broken" });
    expect(await admission.settlement()).toMatchObject({ requestBytes: 3, responseBytes: 0 });
    expect(lines).toMatchObject([
      { level: "warn", reason: "upstream_broken", path: "/x", target: `http://${backend.target}` },
    ]);
  });

  it("and is unreachable: the client gets 502", async () => {
    const { port, admission } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"] }));
    const reply = await fetchReply(port, "/", { method: "POST", body: "abc" });
    expect(json(reply)).toEqual({ error: "bad_gateway", reason: "upstream_unreachable" });
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
  });

  it.each([
    ["with Content-Length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"],
    ["in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"],
  ])("during a response %s: the client can tell that the response is incomplete", async (_, bytes) => {
    const sockets: Socket[] = [];
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        sockets.push(socket);
        socket.once("data", () => socket.write(bytes));
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const request = open(port);
    request.end();
    const [response] = await once(request, "response");
    await once(response, "data");
    sockets[0]!.destroy();
    await expect(once(response, "end")).rejects.toThrow("aborted");
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 4 });
  });

  it("during a response: an HTTP/1.0 client gets a reset instead of a regular end", async () => {
    const sockets: Socket[] = [];
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        sockets.push(socket);
        socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"));
      }),
    );
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.0\r\n\r\n");
    await client.until((text) => text.endsWith("part"));
    const failure = once(client.socket, "end");
    sockets[0]!.destroy();
    await expect(failure).rejects.toMatchObject({ code: "ECONNRESET" });
  });
});

describe("a timeout", () => {
  it("of a backend that does not respond: 504", async () => {
    const backend = await cleanup.add(startBackend(() => {}));
    const { port, admission, lines } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { responseMs: SHORT } }),
    );
    const reply = await fetchReply(port);
    expect(reply.status).toBe(504);
    expect(json(reply)).toEqual({ error: "gateway_timeout", reason: "upstream_timeout" });
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
    expect(lines).toMatchObject([{ level: "warn", reason: "upstream_timeout" }]);
  });

  it("of a request that is queued for a backend connection: 504", async () => {
    const backend = await cleanup.add(startBackend(() => {}));
    const { port } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        upstream: { connections: 1 },
        timeouts: { responseMs: SHORT, connectMs: SHORT },
      }),
    );
    const replies = await Promise.all([fetchReply(port), fetchReply(port), fetchReply(port)]);
    expect(replies.map(({ status }) => status)).toEqual([504, 504, 504]);
  });

  it("of a backend that stalls during its response: the response is aborted and settled", async () => {
    const backend = await cleanup.add(startBackend((_, response) => void response.write("part")));
    const { port, admission } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: SHORT } }),
    );
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await client.closed()).not.toContain("\r\n0\r\n");
    expect(await admission.settlement()).toMatchObject({ responseBytes: 4 });
  });

  it("of a backend that does not read the request: 504", async () => {
    const backend = await cleanup.add(startRawBackend((socket) => socket.pause()));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: SHORT } }));
    const client = await openRaw(port);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    client.socket.write(Buffer.alloc(50_000_000));
    const text = await client.closed();
    expect(statusOf(text)).toBe(504);
    expect(JSON.parse(bodyOf(text)).reason).toBe("upstream_timeout");
  });

  it("of a client that does not read its response: both connections are closed", async () => {
    const left = signal<void>();
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.on("close", left.resolve);
        response.write(Buffer.alloc(50_000_000));
      }),
    );
    const { port, admission, lines } = await cleanup.add(
      startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: SHORT } }),
    );
    const client = await openRaw(port);
    client.socket.pause();
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await left.promise;
    expect((await admission.settlement()).responseBytes).toBeLessThan(50_000_000);
    expect(lines).toMatchObject([{ reason: "body_timeout" }]);
    client.socket.destroy();
  });
});
