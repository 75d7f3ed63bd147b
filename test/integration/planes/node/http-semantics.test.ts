/** HTTP/1.1 semantics are preserved through the proxy. */
import { once } from "node:events";
import { Agent } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import {
  type Mirrored,
  mirror,
  startBackend,
  startBytesBackend,
  startRawBackend,
} from "../../../support/http-backend.js";
import { bodyOf, fetchReply, json, open, openRaw, replyTo, sendRaw, statusOf } from "../../../support/http-client.js";
import { admitted, createCleanup, refused, startProxy } from "../../../support/http-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

describe("the proxy", () => {
  it("forwards a request and its response, and settles both sizes", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const reply = await fetchReply(port, "/a/b?c=d&e", {
      method: "POST",
      body: "hello",
      headers: { "X-App-Id": "shop" },
    });
    expect(reply.status).toBe(200);
    expect(json<Mirrored>(reply)).toMatchObject({ method: "POST", url: "/a/b?c=d&e", body: "hello" });
    expect(await admission.settlement()).toMatchObject({ requestBytes: 5, responseBytes: reply.body.length });
    const [arrival] = admission.arrivals;
    expect(arrival).toMatchObject({ method: "POST", contentLength: 5, remoteAddress: "127.0.0.1" });
    expect(arrival!.headerValues("x-app-id")).toEqual(["shop"]);
    expect(arrival!.headerValues("x-user-id")).toEqual([]);
  });

  it("responds to a refused request with the refusal, and does not connect to a backend", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target], decide: () => refused() }));
    const agent = new Agent({ keepAlive: true });
    const reply = await fetchReply(port, "/", { agent, method: "POST", body: "some" });
    expect(reply.status).toBe(429);
    expect(reply.headers["retry-after"]).toBe("1");
    expect(reply.headers["content-type"]).toBe("application/json");
    expect(json(reply)).toEqual({ error: "rate_limit_exceeded", reason: "quota_exhausted" });
    expect(backend.connections()).toBe(0);
    const again = await fetchReply(port, "/", { agent });
    expect(again.localPort, "the connection stays usable").toBe(reply.localPort);
    agent.destroy();
  });

  it("waits for an asynchronous decision and then forwards the complete body", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    let decide = (_: ReturnType<typeof admitted>) => {};
    const verdict = new Promise<ReturnType<typeof admitted>>((resolve) => {
      decide = resolve;
    });
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target], decide: () => verdict }));
    const request = open(port, { method: "PUT" });
    const replied = replyTo(request);
    request.end("body");
    await once(request, "finish");
    decide(admitted());
    expect(json<Mirrored>(await replied).body).toBe("body");
    expect(await admission.settlement()).toMatchObject({ requestBytes: 4 });
  });

  it("responds with 500 when the decision throws", async () => {
    const { port, lines } = await cleanup.add(
      startProxy({ targets: ["127.0.0.1:1"], decide: () => Promise.reject(new Error("a\nb")) }),
    );
    const reply = await fetchReply(port);
    expect(reply.status).toBe(500);
    expect(lines).toMatchObject([{ reason: "internal_error", cause: "a\\u000ab" }]);
  });

  it("reuses connections of clients and backends", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number>();
    for (let n = 0; n < 5; n++)
      ports.add((await fetchReply(port, "/", { agent, method: n === 2 ? "HEAD" : "GET" })).localPort);
    expect(ports.size).toBe(1);
    expect(backend.connections()).toBe(1);
    agent.destroy();
  });

  it("closes the client's connection on Connection: close, and keeps the backend's connection", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    for (let n = 0; n < 2; n++) {
      const text = await sendRaw(port, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
      expect(statusOf(text)).toBe(200);
      expect(text).toMatch(/\r\nConnection: close\r\n/i);
    }
    expect(backend.connections()).toBe(1);
  });

  it("serves HTTP/1.0 clients: Host is optional, bodies are not chunked and end with the connection", async () => {
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.write("one,");
        response.end("two");
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const text = await sendRaw(port, "GET / HTTP/1.0\r\n\r\n");
    expect(statusOf(text)).toBe(200);
    expect(text).not.toMatch(/transfer-encoding/i);
    expect(bodyOf(text)).toBe("one,two");
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 7 });
  });

  it("forwards responses to HEAD, and 204 and 304 responses, without a body", async () => {
    const backend = await cleanup.add(
      startBackend((request, response) => {
        if (request.method === "HEAD") response.writeHead(200, { "content-length": 1234 });
        else response.writeHead(request.url === "/204" ? 204 : 304, { etag: '"x"' });
        response.end();
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    const head = await client.until((text) => text.endsWith("\r\n\r\n"));
    expect(head).toMatch(/content-length: 1234\r\n/i);
    for (const status of [204, 304]) {
      const before = client.text().length;
      client.write(`GET /${status} HTTP/1.1\r\nHost: a\r\n\r\n`);
      const text = (await client.until((all) => all.length > before && all.endsWith("\r\n\r\n"))).slice(before);
      expect(statusOf(text)).toBe(status);
      expect(text).toContain('etag: "x"\r\n');
      expect(text).not.toMatch(/transfer-encoding|content-length/i);
    }
    client.socket.destroy();
    for (const { requestBytes, responseBytes } of admission.settled)
      expect([requestBytes, responseBytes]).toEqual([0, 0]);
  });

  it("forwards trailers of a response, and TE: trailers of a request", async () => {
    const backend = await cleanup.add(
      startBackend((request, response) => {
        response.writeHead(200, { Trailer: "X-Sum, Content-Length", "X-Te": request.headers.te ?? "none" });
        response.write("data");
        response.addTrailers([
          ["X-Sum", "42"],
          ["X-Sum-Two", "43"],
        ]);
        response.end();
      }),
    );
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const reply = await fetchReply(port, "/", { headers: { TE: "gzip, trailers", Connection: "TE" } });
    expect(reply.headers["x-te"]).toBe("trailers");
    expect(reply.headers.trailer).toBe("X-Sum, Content-Length");
    expect(reply.trailers).toEqual({ "x-sum": "42", "x-sum-two": "43" });
    const old = await sendRaw(port, "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    expect(bodyOf(old)).toBe("data");
    expect(old).not.toMatch(/x-sum/i);
  });

  it("forwards a request with trailers with its complete body and without the trailers", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const head =
      "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
    const reply = await sendRaw(port, `${head}3\r\nabc\r\n0\r\nX-Sum: 42\r\n\r\n`);
    expect(JSON.parse(bodyOf(reply)).body).toBe("abc");
    expect(reply).toMatch(/^HTTP\/1.1 200 /);
  });

  it("forwards a chunked request with its complete body", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.write("2;ext=1\r\nde\r\n0\r\n\r\n");
    expect(JSON.parse(bodyOf(await client.closed())).body).toBe("abcde");
    expect(await admission.settlement()).toMatchObject({ requestBytes: 5 });
    expect(admission.arrivals[0]!.contentLength).toBe(-1);
  });

  it("forwards the head and each event of an event stream without delay", async () => {
    const events: ((text: string | undefined) => void)[] = [];
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.flushHeaders();
        events.push((text) => (text === undefined ? response.end() : response.write(text)));
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.until((text) => text.endsWith("\r\n\r\n"));
    events[0]!("data: 1\n\n");
    await client.until((text) => text.includes("data: 1\n\n"));
    events[0]!(undefined);
    await client.until((text) => text.endsWith("0\r\n\r\n"));
    expect(await admission.settlement()).toMatchObject({ responseBytes: 9 });
    client.socket.destroy();
  });

  it("forwards early hints", async () => {
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.writeEarlyHints({ link: "</style.css>; rel=preload; as=style" });
        response.end("page");
      }),
    );
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const request = open(port);
    const hints = once(request, "information");
    const replied = replyTo(request);
    request.end();
    expect((await hints)[0]).toMatchObject({
      statusCode: 103,
      headers: { link: "</style.css>; rel=preload; as=style" },
    });
    expect((await replied).body).toBe("page");
  });

  it("responds to pipelined requests in their order", async () => {
    const backend = await cleanup.add(
      startBackend((request, response) => {
        const reply = () => response.end(request.url);
        if (request.url === "/first") setImmediate(() => setImmediate(reply));
        else reply();
      }),
    );
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const text = await sendRaw(
      port,
      "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\nGET /third HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    expect(text.match(/first|second|third/g)).toEqual(["first", "second", "third"]);
  });

  it("accepts absolute request targets, and uses their host instead of the Host header", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(
      startProxy({ targets: [backend.target], routes: [{ path: "/", host: "shop.example", upstream: "backend" }] }),
    );
    const text = await sendRaw(
      port,
      "GET http://SHOP.example:80/x?y HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n",
    );
    const seen = JSON.parse(bodyOf(text)) as Mirrored;
    expect(seen.url).toBe("/x?y");
    expect(seen.rawHeaders.join()).toContain("SHOP.example:80");
  });

  it("forwards all bytes of a response that ends with the connection", async () => {
    const backend = await cleanup.add(startBytesBackend("HTTP/1.1 200 OK\r\n\r\nall of it", { end: true }));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    expect((await fetchReply(port)).body).toBe("all of it");
  });

  it("responds with 501 to upgrades and CONNECT, and ignores an upgrade to h2c", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const upgrade = (name: string) =>
      sendRaw(port, `GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: ${name}\r\n\r\n`);
    const text = await upgrade("websocket");
    expect(statusOf(text)).toBe(501);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "not_implemented", reason: "unsupported_upgrade" });
    const tunnel = await sendRaw(port, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n");
    expect(JSON.parse(bodyOf(tunnel))).toEqual({ error: "not_implemented", reason: "unsupported_method" });
    expect(admission.arrivals).toHaveLength(0);
    const plain = await upgrade("h2c");
    expect(statusOf(plain)).toBe(200);
    expect(bodyOf(plain)).not.toMatch(/"upgrade"/i);
  });

  it("closes the connection after a response that ended before the request", async () => {
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        socket.once("data", () => socket.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"));
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n12345");
    const text = await client.closed();
    expect(statusOf(text)).toBe(403);
    expect(bodyOf(text)).toBe("no");
    expect(await admission.settlement()).toMatchObject({ requestBytes: 5, responseBytes: 2 });
  });
});
