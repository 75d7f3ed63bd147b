/** The listener for Envoy at the protocol level: any chunking, invalid calls, hostile peers, garbage and shutdown. */
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { connect, type Socket } from "node:net";
import { array, assert, asyncProperty, constantFrom, nat, tuple, uint8Array } from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { DescriptorStatus } from "../../../src/descriptors/descriptor.js";
import type { EnvoyAccess } from "../../../src/envoy-service/access.js";
import { Writer } from "../../../src/envoy-service/grpc/protobuf-writer.js";
import type { ClientStreamMethod } from "../../../src/envoy-service/grpc/server.js";
import { GrpcError } from "../../../src/envoy-service/grpc/status.js";
import { everyone, type ListenerUnderTest, startEnvoyListener } from "../../support/envoy-listener.js";
import { waitFor } from "../../support/wait-for.js";

const METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const TOKEN = "plane-token-of-the-tests";
const status: DescriptorStatus = {
  allowed: true,
  code: "ok",
  unlimited: false,
  remaining: 0,
  resetMs: 0,
  retryAfterMs: 0,
  shadow: false,
};
let access: EnvoyAccess = everyone;
let streams: { received: string[]; ended: boolean; lost: boolean }[] = [];
const collecting: ClientStreamMethod = {
  kind: "client-stream",
  path: "/test.Log/Stream",
  open() {
    const stream = { received: [] as string[], ended: false, lost: false };
    streams.push(stream);
    return {
      message(bytes) {
        if (bytes.length === 3) throw new GrpcError(9, "no threes: ünwanted");
        stream.received.push(Buffer.from(bytes).toString());
      },
      ended() {
        stream.ended = true;
        return Buffer.from("bye");
      },
      lost() {
        stream.lost = true;
      },
    };
  },
};
/** The connection preface and empty settings. */
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");
const request = (value = "v") => {
  const writer = new Writer();
  const descriptor = writer.text(1, "edge").open(2);
  const entry = writer.open(1);
  return writer.text(1, "k").text(2, value).close(entry).close(descriptor).finish();
};
const frame = (message: Buffer, flag = 0) => {
  const head = Buffer.alloc(5, flag);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};

let listener: ListenerUnderTest;
let session: ClientHttp2Session;
const allowAll = {
  decide: (_domain: string, descriptors: readonly unknown[]) => ({
    allowed: true,
    code: "ok",
    statuses: descriptors.map(() => status),
  }),
};
beforeAll(async () => {
  listener = await startEnvoyListener({ descriptors: allowAll, methods: [collecting], access: () => access });
});
beforeEach(() => {
  session = connectHttp2(listener.url);
  session.on("error", () => {});
});
afterEach(() => {
  session.destroy();
  access = everyone;
  streams = [];
  expect(listener.errors).toEqual([]);
});
afterAll(() => listener.close(0));

interface Reply {
  head: IncomingHttpHeaders;
  /** The headers, if there are no trailers. */
  trailers: IncomingHttpHeaders;
  body: Buffer;
}

function call(chunks: Buffer[], headers: Record<string, string> = {}, end = true): Promise<Reply> {
  const stream = session.request({
    ":method": "POST",
    ":path": METHOD,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  const reply: Reply = { head: {}, trailers: {}, body: Buffer.alloc(0) };
  stream.on("response", (head) => {
    reply.head = head;
    reply.trailers = head;
  });
  stream.on("trailers", (trailers) => (reply.trailers = trailers));
  stream.on("data", (data: Buffer) => (reply.body = Buffer.concat([reply.body, data])));
  const closed = new Promise<Reply>((resolve, reject) => {
    stream.on("error", reject);
    stream.on("close", () => resolve(reply));
  });
  for (const chunk of chunks) stream.write(chunk);
  if (end) stream.end();
  return closed;
}

async function statusOf(promise: Promise<Reply>): Promise<number> {
  return Number((await promise).trailers["grpc-status"]);
}

describe("a unary call", () => {
  it("gets headers, a message and trailers", async () => {
    const { head, trailers, body } = await call([frame(request())]);
    expect(head).toMatchObject({ ":status": 200, "content-type": "application/grpc" });
    expect(trailers).toMatchObject({ "grpc-status": "0" });
    expect(body.readUInt32BE(1)).toBe(body.length - 5);
  });

  it("may be split into any chunks", async () => {
    const bytes = frame(request("x".repeat(300)));
    const { trailers } = await call([...bytes].map((byte) => Buffer.from([byte])));
    expect(trailers["grpc-status"]).toBe("0");
  });

  it("is recognised as HTTP/2 even if the preface arrives byte by byte", async () => {
    const socket = connect(listener.port, "127.0.0.1");
    const received = new Promise<Buffer>((resolve) => socket.once("data", resolve));
    socket.setNoDelay(true);
    for (const byte of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") {
      socket.write(byte, "latin1");
      await new Promise((resolve) => setImmediate(resolve));
    }
    socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    // The server starts with its settings.
    expect((await received)[3]).toBe(4);
    socket.destroy();
  });

  it.each<[string, number, Buffer[], Record<string, string>]>([
    ["two messages", 13, [frame(request()), frame(request())], {}],
    ["no message", 13, [], {}],
    ["a message and half of another", 13, [Buffer.concat([frame(request()), Buffer.from([0, 0])])], {}],
    ["half a message", 13, [frame(request()).subarray(0, 9)], {}],
    ["a compressed message without grpc-encoding", 13, [frame(request(), 1)], {}],
    ["a compressed message", 12, [frame(request(), 1)], { "grpc-encoding": "gzip" }],
    ["an unknown flag", 13, [frame(request(), 7)], {}],
    ["a length above the maximum", 8, [Buffer.from([0, 0xff, 0xff, 0xff, 0xff])], {}],
    ["an invalid timeout", 13, [frame(request())], { "grpc-timeout": "soon" }],
    ["an unknown method", 12, [frame(request())], { ":path": "/a.B/C" }],
  ])("with %s ends with status %i, and the connection stays open", async (_what, code, chunks, headers) => {
    const { trailers, body } = await call(chunks, headers);
    expect(trailers["grpc-status"]).toBe(String(code));
    expect(trailers["grpc-message"]).not.toBe("");
    expect(body).toHaveLength(0);
    expect(await statusOf(call([frame(request())]))).toBe(0);
  });

  it("gets its reply in parts if the flow control window is small", async () => {
    session.destroy();
    session = connectHttp2(listener.url, { settings: { initialWindowSize: 10 } });
    const replies = await Promise.all(Array.from({ length: 20 }, () => call([frame(request("v"), 0)])));
    for (const { body, trailers } of replies) {
      expect(body.readUInt32BE(1)).toBe(body.length - 5);
      expect(trailers["grpc-status"]).toBe("0");
    }
  });

  it("may have headers of several frames, up to a limit", async () => {
    expect(await statusOf(call([frame(request())], { "x-long": "ü".repeat(20_000) }))).toBe(0);
    await expect(call([frame(request())], { "x-long": "ü".repeat(70_000) })).rejects.toThrow();
  });

  it("may declare an encoding that it does not use", async () => {
    expect(await statusOf(call([frame(request())], { "grpc-encoding": "gzip", "grpc-timeout": "20m" }))).toBe(0);
  });

  it("with another content type is a plain HTTP request", async () => {
    const json = { ":path": "/json", "content-type": "application/json" };
    const { head, body } = await call([Buffer.from("{}")], json);
    expect(head[":status"]).toBe(400);
    expect(body.toString()).toContain("domain must not be empty");
    expect((await call([], { ":path": METHOD, "content-type": "application/grpc-web" })).head[":status"]).toBe(404);
  });
});

describe("a client stream", () => {
  const log = { ":path": "/test.Log/Stream" };

  it("may send more than any flow control window", async () => {
    const text = "x".repeat(90_000);
    const { trailers } = await call(Array<Buffer>(60).fill(frame(Buffer.from(text))), log);
    expect(trailers["grpc-status"]).toBe("0");
    expect(streams[0]?.received.map(({ length }) => length)).toEqual(Array<number>(60).fill(90_000));
  });

  it("receives each message in any chunks, and gets the reply at the end", async () => {
    const bytes = Buffer.concat(["a", "", "long".repeat(100), "d"].map((text) => frame(Buffer.from(text))));
    const cuts = [0, 3, 6, 7, 100, bytes.length];
    const { body, trailers } = await call(
      cuts.slice(1).map((to, i) => bytes.subarray(cuts[i], to)),
      log,
    );
    expect(streams).toMatchObject([{ received: ["a", "", "long".repeat(100), "d"], ended: true, lost: false }]);
    expect(body.subarray(5).toString()).toBe("bye");
    expect(trailers["grpc-status"]).toBe("0");
  });

  it("ends with the error of a message", async () => {
    const { trailers } = await call([frame(Buffer.from("abc"))], log, false);
    expect(trailers).toMatchObject({ "grpc-status": "9", "grpc-message": "no threes: %C3%BCnwanted" });
    expect(streams).toMatchObject([{ ended: false, lost: true }]);
  });

  it("is lost if it is cancelled or disconnected", async () => {
    const stream = session.request({ ":method": "POST", "content-type": "application/grpc", ...log });
    stream.on("error", () => {});
    stream.write(frame(Buffer.from("a")));
    await waitFor("the message", () => streams[0]?.received.length === 1);
    // `close` would end the stream regularly.
    stream.destroy(new Error("cancelled"));
    await waitFor("the loss", () => streams[0]?.lost);
    const other = session.request({ ":method": "POST", "content-type": "application/grpc", ...log });
    other.on("error", () => {});
    other.write(frame(Buffer.from("a")));
    await waitFor("the message", () => streams[1]?.received.length === 1);
    session.destroy();
    await waitFor("the loss", () => streams[1]?.lost);
  });
});

describe("access", () => {
  it("needs the token of data planes if there is one, except for health checks", async () => {
    access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    expect(await statusOf(call([frame(request())]))).toBe(16);
    expect(await statusOf(call([frame(request())], { authorization: "Bearer not-the-token-at-all" }))).toBe(16);
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    expect(await statusOf(call([frame(request())]))).toBe(16);
    expect(await statusOf(call([frame(Buffer.alloc(0))], { ":path": "/grpc.health.v1.Health/Check" }))).toBe(0);
    access = { planeToken: "another-token-from-now-on", allow: ["127.0.0.0/8"] };
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(16);
  });

  it("is limited to listed addresses", async () => {
    access = { planeToken: "", allow: ["10.0.0.0/8"] };
    expect(await statusOf(call([frame(request())]))).toBe(7);
    expect((await fetch(`${listener.url}/json`, { method: "POST", body: "{}" })).status).toBe(403);
  });

  it("is checked for HTTP requests as well, and web pages are rejected", async () => {
    access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    const post = (headers: Record<string, string>) =>
      fetch(`${listener.url}/json`, { method: "POST", body: "{}", headers }).then(({ status }) => status);
    expect(await post({})).toBe(401);
    expect(await post({ authorization: `Bearer ${TOKEN}` })).toBe(400);
    expect(await post({ authorization: `Bearer ${TOKEN}`, origin: "https://a.example" })).toBe(403);
  });
});

describe("a hostile peer", () => {
  const headerBlock = (headers: Record<string, string>) =>
    Buffer.concat(
      Object.entries(headers).flatMap(([name, value]) => [
        Buffer.from([0, name.length]),
        Buffer.from(name),
        Buffer.from([value.length]),
        Buffer.from(value),
      ]),
    );
  const callHeaders = headerBlock({
    ":method": "POST",
    ":scheme": "http",
    ":path": "/test.Log/Stream",
    "content-type": "application/grpc",
  });
  const http2Frame = (type: number, flags: number, stream: number, payload: Uint8Array) => {
    const head = Buffer.from([0, payload.length >> 8, payload.length & 0xff, type, flags, 0, 0, 0, 0]);
    head.writeUInt32BE(stream, 5);
    return Buffer.concat([head, payload]);
  };

  /** Writes chunks until the server disconnects, stops reading, or has read `maxBytes`. Returns the bytes that it read. */
  async function attack(chunk: (i: number) => Buffer, maxBytes: number, reads = false): Promise<number> {
    const socket = connect(listener.port, "127.0.0.1");
    socket.on("error", () => {});
    let closed = false;
    socket.on("close", () => (closed = true));
    if (reads) socket.resume();
    socket.write(preface);
    let taken = 0;
    for (let i = 0; !closed && taken < maxBytes; i++) {
      const bytes = chunk(i);
      const isTaken = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), 500);
        socket.write(bytes, (error) => {
          clearTimeout(timer);
          resolve(error === undefined || error === null);
        });
      });
      if (!isTaken) break;
      taken += bytes.length;
    }
    socket.destroy();
    expect(await statusOf(call([frame(request())]))).toBe(0);
    return taken;
  }
  const MAX_BYTES = 64 * 1_048_576;

  it("that sends pings and never reads is not read for ever", async () => {
    const pings = Buffer.concat(Array<Buffer>(5_000).fill(http2Frame(6, 0, 0, Buffer.alloc(8))));
    expect(await attack(() => pings, MAX_BYTES)).toBeLessThan(MAX_BYTES);
  });

  it("that sends settings and never reads is not read for ever", async () => {
    const settings = Buffer.concat(Array<Buffer>(5_000).fill(http2Frame(4, 0, 0, Buffer.alloc(0))));
    expect(await attack(() => settings, MAX_BYTES)).toBeLessThan(MAX_BYTES);
  });

  it("that resets every call at once is disconnected", async () => {
    let stream = -1;
    const resets = () =>
      Buffer.concat(
        Array.from({ length: 500 }, () => {
          stream += 2;
          return Buffer.concat([http2Frame(1, 4, stream, callHeaders), http2Frame(3, 0, stream, Buffer.alloc(4, 0))]);
        }),
      );
    expect(await attack(resets, MAX_BYTES, true)).toBeLessThan(MAX_BYTES);
    await waitFor("the end of all streams", () => streams.every(({ ended, lost }) => ended || lost));
  });

  it("that never ends its headers is disconnected", async () => {
    const part = Buffer.alloc(16_000);
    const headers = (i: number) => http2Frame(i === 0 ? 1 : 9, 0, 1, part);
    expect(await attack(headers, MAX_BYTES, true)).toBeLessThan(MAX_BYTES);
  });

  it("has at most 1,000 calls running on a connection", async () => {
    const calls = Buffer.concat(Array.from({ length: 1_500 }, (_, i) => http2Frame(1, 4, 2 * i + 1, callHeaders)));
    await attack((i) => (i === 0 ? calls : http2Frame(6, 0, 0, Buffer.alloc(8))), calls.length + 100, true);
    expect(streams.length).toBeLessThanOrEqual(1_000);
    await waitFor("the end of all streams", () => streams.every(({ lost }) => lost));
  });

  it("cannot keep idle connections without an authorized call", async () => {
    access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    const own = await startEnvoyListener({ descriptors: allowAll, access: () => access, unauthorizedIdleMs: 50 });
    session.destroy();
    session = connectHttp2(own.url);
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    const stranger = connectHttp2(own.url);
    stranger.on("error", () => {});
    await new Promise((resolve) => stranger.on("close", resolve));
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    session.destroy();
    await own.close();
  });
});

describe("garbage", () => {
  function send(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const socket: Socket = connect(listener.port, "127.0.0.1", () => socket.end(bytes));
      socket.on("error", () => {});
      socket.on("close", () => resolve());
      socket.resume();
      // The server waits for the rest of a preface.
      setTimeout(() => socket.destroy(), 200);
    });
  }
  it("in frames ends at most its own connection", async () => {
    const small = uint8Array({ maxLength: 30 });
    const frames = array(tuple(nat(10), nat(255), constantFrom(0, 1, 1, 1, 2, 3, 5), small), { maxLength: 12 });
    await assert(
      asyncProperty(frames, async (list) => {
        const all = list.map(([type, flags, id, payload]) =>
          Buffer.concat([Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, id]), payload]),
        );
        await send(Buffer.concat([preface, ...all]));
      }),
      { numRuns: 150 },
    );
    expect(await statusOf(call([frame(request())]))).toBe(0);
  });

  it("of any kind ends at most its own connection", async () => {
    await assert(
      asyncProperty(uint8Array({ minLength: 1, maxLength: 100 }), async (bytes) => {
        await Promise.all([send(bytes), send(Buffer.concat([preface, bytes]))]);
      }),
      { numRuns: 60 },
    );
    for (const text of ["P", "PR", "PRX\r\n\r\n", "\0", "GET", "PRI * HTTP/2.0\r\n\r\nSM"])
      await send(Buffer.from(text));
    expect(await statusOf(call([frame(request())]))).toBe(0);
  });
});

describe("closing the listener", () => {
  it("finishes running calls, ends client streams, and sends GOAWAY", async () => {
    let decided: (() => void) | undefined;
    const waiting = new Promise<void>((resolve) => (decided = resolve));
    let asked = false;
    const slow = {
      async decide(domain: string, descriptors: readonly unknown[]) {
        asked = true;
        await waiting;
        return allowAll.decide(domain, descriptors);
      },
    };
    const own = await startEnvoyListener({ descriptors: slow, methods: [collecting] });
    session.destroy();
    session = connectHttp2(own.url);
    const goaway = new Promise<number>((resolve) => session.on("goaway", resolve));
    const reply = call([frame(request())]);
    const stream = call([frame(Buffer.from("a"))], { ":path": "/test.Log/Stream" }, false);
    await waitFor("the call and the stream", () => asked && streams[0]?.received.length === 1);
    const closed = own.close(20_000);
    expect(await goaway).toBe(0);
    expect(await statusOf(stream)).toBe(0);
    expect(streams[0]).toMatchObject({ ended: true, lost: false });
    decided?.();
    expect(await statusOf(reply)).toBe(0);
    await closed;
  });

  it("does not wait for idle connections", async () => {
    const own = await startEnvoyListener({ descriptors: allowAll });
    const quiet = connect(own.port, "127.0.0.1");
    const idle = connectHttp2(own.url);
    idle.on("error", () => {});
    const kept = await fetch(`${own.url}/json`, { method: "POST", body: "{}" });
    await kept.text();
    await waitFor("both connections", () => !quiet.connecting && idle.remoteSettings?.maxConcurrentStreams === 1_000);
    // Longer than any test may take.
    await own.close(600_000);
    quiet.destroy();
    idle.destroy();
  });

  it("disconnects calls that do not end in time", async () => {
    const own = await startEnvoyListener({ descriptors: { decide: () => new Promise(() => {}) } });
    session.destroy();
    session = connectHttp2(own.url);
    session.on("error", () => {});
    const reply = call([frame(request())]).catch(() => undefined);
    await waitFor("a connection", () => session.connecting === false);
    await own.close(50);
    await reply;
  });
});
