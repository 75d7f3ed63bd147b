/** HTTP/2 clients of the gateway: requests, bodies, trailers and refusals, with the same results as over HTTP/1.1. */
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { constants } from "node:http2";
import { afterEach, describe, expect, it } from "vitest";
import { type Mirrored, mirror, startBackend, startRawBackend, valuesIn } from "../../../support/http-backend.js";
import { admitted, createCleanup, refused, type TestProxyOptions } from "../../../support/http-proxy.js";
import { DATA, headersFrames, http2Frame, prefaceWith, RESET } from "../../../support/http2-frames.js";
import { getHead } from "../../../support/http2-heads.js";
import { answerOf, http2, type SecureProxy, startSecureProxy } from "../../../support/http2-proxy.js";
import { waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

async function start(listener: RequestListener, options: TestProxyOptions = {}): Promise<SecureProxy> {
  const backend = await cleanup.add(startBackend(listener));
  return cleanup.add(startSecureProxy({ targets: [backend.target], ...options }));
}

it("both protocols on one port: the backend gets the same request, except for Via", async () => {
  const proxy = await start(mirror);
  const headers = { "x-test": "a", te: "trailers", "x-forwarded-for": "1.2.3.4" };
  const first = JSON.parse((await proxy.http1("GET", "/a?b=c", { host: "app.example", ...headers })).body) as Mirrored;
  const session = proxy.connect();
  const answer = await http2(session, { ":path": "/a?b=c", ":authority": "app.example", ...headers });
  const second = JSON.parse(answer.body) as Mirrored;
  expect(session.alpnProtocol).toBe("h2");
  const sorted = ({ rawHeaders, ...rest }: Mirrored) => {
    const pairs = rawHeaders.filter((_, at) => at % 2 === 0).map((name, i) => `${name}: ${rawHeaders[2 * i + 1]}`);
    return { ...rest, headers: pairs.sort() };
  };
  const via = (text: Mirrored) => sorted(text).headers.filter((line) => !/^via/i.test(line));
  expect(via(second)).toEqual(via(first));
  expect(second).toMatchObject({ method: "GET", url: "/a?b=c", body: "" });
  expect(valuesIn(first.rawHeaders, "via")).toEqual(["1.1 tollgate"]);
  expect(valuesIn(second.rawHeaders, "via")).toEqual(["2 tollgate"]);
  expect(valuesIn(second.rawHeaders, "x-forwarded-proto")).toEqual(["https"]);
  expect(answer.headers.via).toBe("1.1 tollgate");
});

it("cookies that a client has split reach the backend as one header", async () => {
  const proxy = await start(mirror);
  const { body } = await http2(proxy.connect(), { cookie: ["a=1", "b=2"] });
  expect(valuesIn((JSON.parse(body) as Mirrored).rawHeaders, "cookie")).toEqual(["a=1; b=2"]);
});

it("bodies of known and unknown length pass in both directions, and are settled exactly", async () => {
  const proxy = await start((request, response) => {
    if (request.url === "/known") response.setHeader("content-length", request.headers["content-length"] ?? "0");
    request.pipe(response);
  });
  const session = proxy.connect();
  const body = Buffer.alloc(3_000_000, "x");
  const known = await http2(session, { ":method": "PUT", ":path": "/known", "content-length": body.length }, body);
  const open = await http2(session, { ":method": "PUT", ":path": "/open" }, body);
  expect([known.status, known.body.length, open.status, open.body.length]).toEqual([200, 3e6, 200, 3e6]);
  expect(proxy.admission.arrivals.map(({ contentLength }) => contentLength)).toEqual([3_000_000, -1]);
  for (const i of [0, 1]) {
    expect(await proxy.admission.settlement(i)).toMatchObject({ requestBytes: 3_000_000, responseBytes: 3_000_000 });
  }
});

it("passes trailers, early hints, and responses without a body; no headers for a connection", async () => {
  const proxy = await start((request, response) => {
    const status = Number(request.url!.slice(1));
    if (status === 103) response.writeEarlyHints({ link: "</style.css>; rel=preload" });
    if (status !== 200) {
      response.writeHead(status === 103 ? 200 : status, {
        connection: "x-hop",
        "x-hop": "1",
        "set-cookie": ["a=1", "b=2"],
      });
      response.end();
      return;
    }
    response.writeHead(200, ["Transfer-Encoding", "chunked", "Trailer", "X-Sum", "ETag", "a", "ETag", "b"]);
    response.write("body");
    response.addTrailers({ "X-Sum": "42" });
    response.end();
  });
  const session = proxy.connect();
  const full = await http2(session, { ":path": "/200" });
  expect(full).toMatchObject({ status: 200, body: "body", code: 0 });
  expect(full.trailers).toMatchObject({ "x-sum": "42" });
  expect(full.headers.etag).toBe("a");
  expect(await http2(session, { ":path": "/103" })).toMatchObject({ status: 200, informed: [103] });
  const empty = await http2(session, { ":path": "/204" });
  expect(empty).toMatchObject({ status: 204, body: "", headers: { "set-cookie": ["a=1", "b=2"] } });
  expect(Object.keys(empty.headers)).not.toContain("x-hop");
  expect(await http2(session, { ":path": "/304" })).toMatchObject({ status: 304, body: "" });
  expect(await http2(session, { ":path": "/200", ":method": "HEAD" })).toMatchObject({
    status: 200,
    body: "",
    code: 0,
  });
});

it("sends 100 Continue when the backend reads the body, and none before a refusal", async () => {
  let isOpen = true;
  const proxy = await start(mirror, { decide: () => (isOpen ? admitted() : refused()) });
  const session = proxy.connect();
  const headers = { ":method": "POST", expect: "100-continue" };
  const stream = session.request(headers);
  stream.on("continue", () => stream.end("hello"));
  const answer = await answerOf(stream);
  expect([answer.status, (JSON.parse(answer.body) as Mirrored).body]).toEqual([200, "hello"]);
  isOpen = false;
  const second = session.request(headers);
  second.on("continue", () => expect.unreachable());
  expect(await answerOf(second)).toMatchObject({ status: 429, code: 0 });
});

it("a refusal is sent before the body is read, the rest of the body is stopped, and the connection stays usable", async () => {
  let isOpen = false;
  const proxy = await start(mirror, {
    decide: () => (isOpen ? admitted() : refused()),
  });
  const session = proxy.connect();
  const stream = session.request({ ":method": "POST" });
  stream.write(Buffer.alloc(30_000));
  expect(await answerOf(stream)).toMatchObject({ status: 429, headers: { "retry-after": "1" }, code: 0 });
  isOpen = true;
  expect(await http2(session, {})).toMatchObject({ status: 200 });
  expect(session.destroyed).toBe(false);
});

describe("the same verdict as over HTTP/1.1:", () => {
  const options: TestProxyOptions = {
    routes: [
      { path: "/", host: "known.example", upstream: "backend" },
      { path: "/down", upstream: "down" },
    ],
    limits: { path: "strict", bodyBytes: 10, headerBytes: 2_048, headerCount: 20, requestsPerClient: 5 },
    decide: ({ path }) =>
      path === "/refused"
        ? refused(429, { "Retry-After": "7", "X-RateLimit-Limit": "3" })
        : { ...refused(), allowed: true, headers: {} },
  };
  type Headers = Record<string, string>;
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`x-${i}`, "1"]));
  const cases: [number, string, string, Headers?, string?][] = [
    [200, "GET", "/"],
    [429, "GET", "/refused"],
    [404, "GET", "/", { host: "other.example" }],
    [502, "GET", "/down", { host: "other.example" }],
    [400, "GET", "/a/../b"],
    [501, "TRACE", "/"],
    [400, "POSV", "/"],
    [413, "PUT", "/", { "content-length": "11" }, "12345678901"],
    [431, "GET", "/", { "x-large": "x".repeat(2_100) }],
    [431, "GET", "/", many],
    [417, "PUT", "/", { expect: "something", "content-length": "1" }, "1"],
  ];
  it.for(cases)("%i for %s %s", async ([status, method, path, headers = {}, body]) => {
    const backend = await cleanup.add(startBackend(mirror));
    const upstreams = { backend: { targets: [backend.target] }, down: { targets: ["127.0.0.1:1"] } };
    const proxy = await cleanup.add(startSecureProxy({ ...options, upstreams }));
    const { host = "known.example", ...others } = headers;
    const sent = body === undefined ? undefined : Buffer.from(body);
    const first = await proxy.http1(method, path, { host, ...others }, sent);
    const second = await http2(
      proxy.connect(),
      { ":method": method, ":path": path, ":authority": host, ...others },
      sent,
    );
    expect([first.status, second.status]).toEqual([status, status]);
    const own = ({ headers: { date: _, connection: __, ...rest } }: { headers: Record<string, unknown> }) =>
      Object.entries(rest)
        .filter(([name]) => !name.startsWith(":"))
        .sort();
    if (status !== 200) {
      expect(second.body).toBe(first.body);
      expect(own(second)).toEqual(own(first));
    }
  });
});

it("user information in Host or :authority is rejected: by the gateway, or by Node itself from version 24 on", async () => {
  const proxy = await start(mirror);
  expect(await proxy.http1("GET", "/", { host: "user@a.example" })).toMatchObject({ status: 400 });
  const { status, code } = await http2(proxy.connect(), { ":authority": "user@a.example" });
  expect([status, code]).toBeOneOf([
    [400, constants.NGHTTP2_NO_ERROR],
    [0, constants.NGHTTP2_PROTOCOL_ERROR],
  ]);
});

it("another Host than :authority, an absolute :path and CONNECT are rejected; the connection stays usable", async () => {
  const proxy = await start(mirror);
  const session = proxy.connect();
  expect(await http2(session, { ":authority": "a.example", host: "b.example" })).toMatchObject({ status: 400 });
  expect(await http2(session, { ":authority": "a.example", host: "A.example" })).toMatchObject({ status: 200 });
  expect(await http2(session, { ":scheme": "x", ":path": "http://other.example/" })).toMatchObject({ status: 400 });
  const tunnel = session.request({ ":method": "CONNECT", ":authority": "a.example:80" });
  expect(await answerOf(tunnel)).toMatchObject({ status: 501 });
  expect(await http2(session, {})).toMatchObject({ status: 200 });
});

it.for(["Content-Length: 1000\r\n\r\nshort", "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"])(
  "a response that the backend breaks off is reset; other streams of the connection continue: %j",
  async (rest) => {
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        socket.once("data", (head: Buffer) => {
          if (head.toString().startsWith("GET /broken")) {
            socket.write(`HTTP/1.1 200 OK\r\n${rest}`);
            setImmediate(() => socket.end());
          } else socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        });
      }),
    );
    const proxy = await cleanup.add(startSecureProxy({ targets: [backend.target] }));
    const session = proxy.connect();
    const other = session.request({ ":method": "POST", ":path": "/other" });
    other.write("a");
    const answer = answerOf(other);
    const broken = await http2(session, { ":path": "/broken" });
    expect([broken.status, broken.code]).toEqual([200, constants.NGHTTP2_INTERNAL_ERROR]);
    other.end("b");
    expect(await answer).toMatchObject({ status: 200, body: "ok" });
  },
);

it.for([constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL])(
  "a body that the client breaks off with code %i does not reach the backend as a complete one",
  async (code) => {
    const events: string[] = [];
    const proxy = await start((request) => {
      request.on("data", () => events.push("data"));
      request.on("end", () => events.push("end"));
      request.on("error", () => events.push("aborted"));
    });
    const socket = await proxy.connectRaw();
    const head = headersFrames(1, getHead("/", "POST"));
    socket.write(Buffer.concat([prefaceWith(), head, http2Frame(DATA, 0, 1, Buffer.from("part"))]));
    await waitFor("the body to arrive", () => events.length === 1);
    socket.write(http2Frame(RESET, 0, 1, Buffer.from([0, 0, 0, code])));
    await waitFor("the request to end", () => events.length === 2);
    expect(events).toEqual(["data", "aborted"]);
    expect(await proxy.admission.settlement()).toMatchObject({ requestBytes: 4 });
    expect(socket.destroyed).toBe(false);
  },
);

it("a response to a client that resets the stream is settled with what was sent, and the backend is left", async () => {
  let left = false;
  const proxy = await start((_, response) => {
    response.on("close", () => (left = true));
    response.write("first");
  });
  const session = proxy.connect();
  const stream = session.request({});
  stream.on("error", () => {});
  await once(stream, "data");
  stream.close(constants.NGHTTP2_CANCEL);
  expect(await proxy.admission.settlement()).toMatchObject({ responseBytes: 5 });
  await waitFor("the backend to be left", () => left);
});

it("streams above the number of running requests of a client get 429; further ones are possible afterwards", async () => {
  const waiting: (() => void)[] = [];
  const proxy = await start((_, response) => waiting.push(() => response.end("ok")), {
    limits: { requestsPerClient: 2 },
  });
  const session = proxy.connect();
  const running = [http2(session, {}), http2(session, {})];
  await waitFor("two requests", () => waiting.length === 2);
  expect(await http2(session, {})).toMatchObject({ status: 429 });
  for (const end of waiting.splice(0)) end();
  for (const answer of await Promise.all(running)) expect(answer.status).toBe(200);
  const next = http2(session, {});
  await waitFor("another request", () => waiting.length === 1);
  waiting[0]!();
  expect((await next).status).toBe(200);
});
