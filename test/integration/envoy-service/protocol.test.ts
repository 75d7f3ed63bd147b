/** The listener for Envoy as the wire sees it: bytes cut anywhere, calls that break the rules, and garbage. */
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
  ...{ allowed: true, code: "ok", unlimited: false, remaining: 0, resetMs: 0, retryAfterMs: 0, shadow: false },
};
let access: EnvoyAccess = everyone;
let streams: { heard: string[]; ended: boolean; lost: boolean }[] = [];
const collecting: ClientStreamMethod = {
  kind: "client-stream",
  path: "/test.Log/Stream",
  open() {
    const stream = { heard: [] as string[], ended: false, lost: false };
    streams.push(stream);
    return {
      message(bytes) {
        if (bytes.length === 3) throw new GrpcError(9, "no threes: ünwanted");
        stream.heard.push(Buffer.from(bytes).toString());
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
const rules = {
  decide: (_domain: string, descriptors: readonly unknown[]) => ({
    ...{ allowed: true, code: "ok", statuses: descriptors.map(() => status) },
  }),
};
beforeAll(async () => {
  listener = await startEnvoyListener({ descriptors: rules, methods: [collecting], access: () => access });
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

interface Answer {
  head: IncomingHttpHeaders;
  /** With the head, where there is nothing else. */
  trailers: IncomingHttpHeaders;
  body: Buffer;
}

function call(chunks: Buffer[], headers: Record<string, string> = {}, end = true): Promise<Answer> {
  const stream = session.request({
    ...{ ":method": "POST", ":path": METHOD, "content-type": "application/grpc", te: "trailers" },
    ...headers,
  });
  const answer: Answer = { head: {}, trailers: {}, body: Buffer.alloc(0) };
  stream.on("response", (head) => {
    answer.head = head;
    answer.trailers = head;
  });
  stream.on("trailers", (trailers) => (answer.trailers = trailers));
  stream.on("data", (data: Buffer) => (answer.body = Buffer.concat([answer.body, data])));
  const closed = new Promise<Answer>((resolve, reject) => {
    stream.on("error", reject);
    stream.on("close", () => resolve(answer));
  });
  for (const chunk of chunks) stream.write(chunk);
  if (end) stream.end();
  return closed;
}

async function statusOf(promise: Promise<Answer>): Promise<number> {
  return Number((await promise).trailers["grpc-status"]);
}

describe("a call", () => {
  it("is answered with head, message and trailers", async () => {
    const { head, trailers, body } = await call([frame(request())]);
    expect(head).toMatchObject({ ":status": 200, "content-type": "application/grpc" });
    expect(trailers).toMatchObject({ "grpc-status": "0" });
    expect(body.readUInt32BE(1)).toBe(body.length - 5);
  });

  it("is heard however its bytes are cut", async () => {
    const bytes = frame(request("x".repeat(300)));
    const { trailers } = await call([...bytes].map((byte) => Buffer.from([byte])));
    expect(trailers["grpc-status"]).toBe("0");
  });

  it("is told apart from HTTP even if it comes byte by byte", async () => {
    const socket = connect(listener.port, "127.0.0.1");
    const received = new Promise<Buffer>((resolve) => socket.once("data", resolve));
    socket.setNoDelay(true);
    for (const byte of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") {
      socket.write(byte, "latin1");
      await new Promise((resolve) => setImmediate(resolve));
    }
    socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    // The server's own settings come first.
    expect((await received)[3]).toBe(4);
    socket.destroy();
  });

  it.each<[string, number, Buffer[], Record<string, string>]>([
    ["two messages", 13, [frame(request()), frame(request())], {}],
    ["no message", 13, [], {}],
    ["a message and half of another", 13, [Buffer.concat([frame(request()), Buffer.from([0, 0])])], {}],
    ["half a message", 13, [frame(request()).subarray(0, 9)], {}],
    ["a compressed message that nothing announced", 13, [frame(request(), 1)], {}],
    ["a compressed message", 12, [frame(request(), 1)], { "grpc-encoding": "gzip" }],
    ["a flag that nobody knows", 13, [frame(request(), 7)], {}],
    ["a length beyond what is read", 8, [Buffer.from([0, 0xff, 0xff, 0xff, 0xff])], {}],
    ["a timeout that cannot be read", 13, [frame(request())], { "grpc-timeout": "soon" }],
    ["an unknown method", 12, [frame(request())], { ":path": "/a.B/C" }],
  ])("with %s ends with status %i, and the connection goes on", async (_what, code, chunks, headers) => {
    const { trailers, body } = await call(chunks, headers);
    expect(trailers["grpc-status"]).toBe(String(code));
    expect(trailers["grpc-message"]).not.toBe("");
    expect(body).toHaveLength(0);
    expect(await statusOf(call([frame(request())]))).toBe(0);
  });

  it("is answered in pieces to a caller that takes little at a time", async () => {
    session.destroy();
    session = connectHttp2(listener.url, { settings: { initialWindowSize: 10 } });
    const answers = await Promise.all(Array.from({ length: 20 }, () => call([frame(request("v"), 0)])));
    for (const { body, trailers } of answers) {
      expect(body.readUInt32BE(1)).toBe(body.length - 5);
      expect(trailers["grpc-status"]).toBe("0");
    }
  });

  it("may have headers that need several frames, up to a limit", async () => {
    expect(await statusOf(call([frame(request())], { "x-long": "ü".repeat(20_000) }))).toBe(0);
    await expect(call([frame(request())], { "x-long": "ü".repeat(70_000) })).rejects.toThrow();
  });

  it("may announce an encoding that it does not use", async () => {
    expect(await statusOf(call([frame(request())], { "grpc-encoding": "gzip", "grpc-timeout": "20m" }))).toBe(0);
  });

  it("with another content type is HTTP", async () => {
    const json = { ":path": "/json", "content-type": "application/json" };
    const { head, body } = await call([Buffer.from("{}")], json);
    expect(head[":status"]).toBe(400);
    expect(body.toString()).toContain("domain must not be empty");
    expect((await call([], { ":path": METHOD, "content-type": "application/grpc-web" })).head[":status"]).toBe(404);
  });
});

describe("a client stream", () => {
  const log = { ":path": "/test.Log/Stream" };

  it("may say more than fits into any window", async () => {
    const text = "x".repeat(90_000);
    const { trailers } = await call(Array<Buffer>(60).fill(frame(Buffer.from(text))), log);
    expect(trailers["grpc-status"]).toBe("0");
    expect(streams[0]?.heard.map(({ length }) => length)).toEqual(Array<number>(60).fill(90_000));
  });

  it("hears each message, however they are cut, and answers at the end", async () => {
    const bytes = Buffer.concat(["a", "", "long".repeat(100), "d"].map((text) => frame(Buffer.from(text))));
    const cuts = [0, 3, 6, 7, 100, bytes.length];
    const { body, trailers } = await call(
      cuts.slice(1).map((to, i) => bytes.subarray(cuts[i], to)),
      log,
    );
    expect(streams).toMatchObject([{ heard: ["a", "", "long".repeat(100), "d"], ended: true, lost: false }]);
    expect(body.subarray(5).toString()).toBe("bye");
    expect(trailers["grpc-status"]).toBe("0");
  });

  it("ends with what a message was refused for", async () => {
    const { trailers } = await call([frame(Buffer.from("abc"))], log, false);
    expect(trailers).toMatchObject({ "grpc-status": "9", "grpc-message": "no threes: %C3%BCnwanted" });
    expect(streams).toMatchObject([{ ended: false, lost: true }]);
  });

  it("that is cancelled, or whose connection is cut, is lost", async () => {
    const stream = session.request({ ":method": "POST", "content-type": "application/grpc", ...log });
    stream.on("error", () => {});
    stream.write(frame(Buffer.from("a")));
    await waitFor("the message", () => streams[0]?.heard.length === 1);
    // Its `close` would end the stream properly first.
    stream.destroy(new Error("cancelled"));
    await waitFor("the loss", () => streams[0]?.lost);
    const other = session.request({ ":method": "POST", "content-type": "application/grpc", ...log });
    other.on("error", () => {});
    other.write(frame(Buffer.from("a")));
    await waitFor("the message", () => streams[1]?.heard.length === 1);
    session.destroy();
    await waitFor("the loss", () => streams[1]?.lost);
  });
});

describe("access", () => {
  it("takes the token of data planes where there is one, and health without", async () => {
    access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    expect(await statusOf(call([frame(request())]))).toBe(16);
    expect(await statusOf(call([frame(request())], { authorization: "Bearer not-the-token-at-all" }))).toBe(16);
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    expect(await statusOf(call([frame(request())]))).toBe(16);
    expect(await statusOf(call([frame(Buffer.alloc(0))], { ":path": "/grpc.health.v1.Health/Check" }))).toBe(0);
    access = { planeToken: "another-token-from-now-on", allow: ["127.0.0.0/8"] };
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(16);
  });

  it("is for listed addresses alone", async () => {
    access = { planeToken: "", allow: ["10.0.0.0/8"] };
    expect(await statusOf(call([frame(request())]))).toBe(7);
    expect((await fetch(`${listener.url}/json`, { method: "POST", body: "{}" })).status).toBe(403);
  });

  it("over HTTP is asked for in the same way", async () => {
    access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    const post = (headers: Record<string, string>) =>
      fetch(`${listener.url}/json`, { method: "POST", body: "{}", headers }).then(({ status }) => status);
    expect(await post({})).toBe(401);
    expect(await post({ authorization: `Bearer ${TOKEN}` })).toBe(400);
    expect(await post({ authorization: `Bearer ${TOKEN}`, origin: "https://a.example" })).toBe(403);
  });
});

describe("garbage", () => {
  function send(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const socket: Socket = connect(listener.port, "127.0.0.1", () => socket.end(bytes));
      socket.on("error", () => {});
      socket.on("close", () => resolve());
      socket.resume();
      // Half a preface is waited for.
      setTimeout(() => socket.destroy(), 200);
    });
  }
  const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");

  it("in the form of frames ends its own connection at most", async () => {
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

  it("of any kind ends its own connection at most", async () => {
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

describe("the end of the listener", () => {
  it("finishes what runs, ends client streams, and sends callers away", async () => {
    let decided: (() => void) | undefined;
    const waiting = new Promise<void>((resolve) => (decided = resolve));
    let asked = false;
    const slow = {
      async decide(domain: string, descriptors: readonly unknown[]) {
        asked = true;
        await waiting;
        return rules.decide(domain, descriptors);
      },
    };
    const own = await startEnvoyListener({ descriptors: slow, methods: [collecting] });
    session.destroy();
    session = connectHttp2(own.url);
    const goaway = new Promise<number>((resolve) => session.on("goaway", resolve));
    const answer = call([frame(request())]);
    const stream = call([frame(Buffer.from("a"))], { ":path": "/test.Log/Stream" }, false);
    await waitFor("both", () => asked && streams[0]?.heard.length === 1);
    const closed = own.close(20_000);
    expect(await goaway).toBe(0);
    expect(await statusOf(stream)).toBe(0);
    expect(streams[0]).toMatchObject({ ended: true, lost: false });
    decided?.();
    expect(await statusOf(answer)).toBe(0);
    await closed;
  });

  it("does not wait for a connection that says nothing, or has nothing more to say", async () => {
    const own = await startEnvoyListener({ descriptors: rules });
    const quiet = connect(own.port, "127.0.0.1");
    const idle = connectHttp2(own.url);
    idle.on("error", () => {});
    const kept = await fetch(`${own.url}/json`, { method: "POST", body: "{}" });
    await kept.text();
    await waitFor("both", () => !quiet.connecting && idle.remoteSettings?.maxConcurrentStreams === 1_000);
    // Longer than any test may take.
    await own.close(600_000);
    quiet.destroy();
    idle.destroy();
  });

  it("cuts what does not end in time", async () => {
    const own = await startEnvoyListener({ descriptors: { decide: () => new Promise(() => {}) } });
    session.destroy();
    session = connectHttp2(own.url);
    session.on("error", () => {});
    const answer = call([frame(request())]).catch(() => undefined);
    await waitFor("a connection", () => session.connecting === false);
    await own.close(50);
    await answer;
  });
});
