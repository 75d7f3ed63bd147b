/** Hostile peers of the listener for Envoy: floods, endless headers, idle connections and garbage end at most their own connection. */
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { array, assert, asyncProperty, constantFrom, nat, tuple, uint8Array } from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ListenerUnderTest, startEnvoyListener } from "../../support/envoy-listener.js";
import { DATA, END_HEADERS, HEADERS, headerBlock, http2Frame, RESET } from "../../support/http2-frames.js";
import { waitFor } from "../../support/wait-for.js";
import {
  allowAll,
  call,
  frame,
  METHOD,
  openSession,
  preface,
  request,
  statusOf,
  TOKEN,
  useListener,
  waiting,
  world,
} from "./protocol-client.js";

useListener();

/** Short times for pings, and none for connections without an authorized call. */
const pinging = { pingMs: 50, handshakeMs: 200, unauthorizedMs: 3_600_000 };

describe("a hostile peer", () => {
  const callHeaders = headerBlock({
    ":method": "POST",
    ":scheme": "http",
    ":authority": "a",
    ":path": waiting.path,
    "content-type": "application/grpc",
  });

  /** Writes chunks until the server disconnects, stops reading, or has read `maxBytes`. Returns the bytes that it read. */
  async function attack(chunk: (i: number) => Buffer, maxBytes: number, reads = false): Promise<number> {
    const socket = connect(world.listener.port, "127.0.0.1");
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
  });

  it("that never ends its headers is disconnected", async () => {
    const part = Buffer.alloc(16_000);
    const headers = (i: number) => http2Frame(i === 0 ? 1 : 9, 0, 1, part);
    expect(await attack(headers, MAX_BYTES, true)).toBeLessThan(MAX_BYTES);
  });

  it("has at most 256 calls running on a connection", async () => {
    const message = frame(Buffer.from("a"));
    const calls = Array.from({ length: 300 }, (_, i) =>
      Buffer.concat([http2Frame(1, 4, 2 * i + 1, callHeaders), http2Frame(DATA, 1, 2 * i + 1, message)]),
    );
    const socket = connect(world.listener.port, "127.0.0.1");
    socket.on("error", () => {}).resume();
    socket.write(preface);
    await new Promise((resolve) => socket.once("data", resolve));
    // The limit applies when the settings are acknowledged.
    socket.write(Buffer.concat([http2Frame(4, 1, 0, Buffer.alloc(0)), ...calls]));
    await waitFor("the calls up to the limit", () => world.waiting >= 256);
    expect(await statusOf(call([frame(request())]))).toBe(0);
    expect(world.waiting).toBe(256);
    socket.destroy();
  });

  it.for([
    ["a header that cannot be decoded", http2Frame(HEADERS, 5, 1, Buffer.alloc(6, 0xff))],
    ["settings of the wrong length", http2Frame(4, 0, 0, Buffer.alloc(7))],
    ["a ping on a stream", http2Frame(6, 0, 9, Buffer.alloc(8))],
  ] as const)("is disconnected after %s, also if it has ended its side", async ([, invalid]) => {
    const own = await startEnvoyListener({ descriptors: allowAll, timeouts: pinging });
    for (const allowHalfOpen of [false, true]) {
      const socket = connect({ port: own.port, host: "127.0.0.1", allowHalfOpen });
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.on("error", () => {}).resume();
      const bytes = Buffer.concat([preface, http2Frame(4, 1, 0), invalid]);
      if (allowHalfOpen) socket.end(bytes);
      else socket.write(bytes);
      await closed;
    }
    await own.close();
  });

  it("that is idle is disconnected if it does not reply to pings, and after a time if it does", async () => {
    const idleMs = 400;
    const own = await startEnvoyListener({ descriptors: allowAll, timeouts: { ...pinging, idleMs } });
    const silent = connect(own.port, "127.0.0.1");
    const ended = new Promise((resolve) => silent.once("close", resolve));
    silent.on("error", () => {}).resume();
    silent.write(Buffer.concat([preface, http2Frame(4, 1, 0)]));
    await ended;
    const session = connectHttp2(own.url);
    let pings = 0;
    session.on("ping", () => pings++);
    await new Promise((resolve) => session.once("close", resolve));
    expect(pings).toBeGreaterThanOrEqual(idleMs / 50 - 1);
    await own.close();
  });

  it("cannot keep idle connections without an authorized call", async () => {
    world.access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    const timeouts = { unauthorizedMs: 50 };
    const own = await startEnvoyListener({ descriptors: allowAll, access: () => world.access, timeouts });
    openSession(own.url);
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    const stranger = connectHttp2(own.url);
    stranger.on("error", () => {});
    await new Promise((resolve) => stranger.on("close", resolve));
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    world.session.destroy();
    await own.close();
  });
});

describe("an address that is not allowed", () => {
  const HEALTH = { ":path": "/grpc.health.v1.Health/Check" };
  const connectFrom = (port: number) => connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" });
  let own: ListenerUnderTest;
  beforeEach(async () => {
    const access = () => ({ planeToken: "", allow: ["127.0.0.1/32"] });
    own = await startEnvoyListener({ descriptors: allowAll, access, timeouts: { outsiderMs: 300 } });
  });
  afterEach(async () => {
    world.session.destroy();
    await own.close(0);
  });

  it("may only call health checks, and is disconnected soon", async () => {
    world.session.destroy();
    world.session = connectHttp2(own.url, { createConnection: () => connectFrom(own.port) });
    const ended = new Promise((resolve) => world.session.once("close", resolve));
    expect(await statusOf(call([frame(Buffer.alloc(0))], HEALTH))).toBe(0);
    expect(await statusOf(call([frame(request())]))).toBe(7);
    await ended;
  });

  it("may have few connections: further ones are closed at once, while others are served", async () => {
    const open = new Set<Socket>();
    const sockets = Array.from({ length: 40 }, () => connectFrom(own.port));
    let closed = 0;
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.on("connect", () => open.add(socket));
      socket.on("close", () => closed++);
      socket.resume();
    }
    await waitFor("24 of 40 to be closed", () => closed === 24);
    openSession(own.url);
    expect(await statusOf(call([frame(request())]))).toBe(0);
    expect(closed).toBe(24);
    for (const socket of sockets) socket.destroy();
  });
});

describe("a peer without credentials", () => {
  it("cannot keep others out by opening connections: the oldest ones are closed", async () => {
    world.access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    let closed = 0;
    const sockets = Array.from({ length: 300 }, () => connect(world.listener.port, "127.0.0.1"));
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.on("close", () => closed++);
      socket.resume();
    }
    await waitFor("the connections above 256 to be closed", () => closed >= 44);
    // The connection that had been authorized before is still open.
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    openSession(world.listener.url);
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    for (const socket of sockets) socket.destroy();
  });
});

describe("an incomplete message", () => {
  const start = (bytes: number) => frame(Buffer.alloc(90_000)).subarray(0, 5 + bytes);

  it("is rejected if too many bytes are buffered, and others are served when those are gone", async () => {
    // The listener of the tests buffers 1 MB, a connection a quarter of that.
    const held = Array.from({ length: 5 }, () => call([start(60_000)], {}, false));
    expect(await statusOf(Promise.race(held))).toBe(8);
    expect(await statusOf(call([frame(request("v".repeat(50_000)))]))).toBe(8);
    for (const one of held) one.catch(() => {});
    await new Promise(setImmediate);
    openSession(world.listener.url);
    expect(await statusOf(call([frame(request("v".repeat(50_000)))]))).toBe(0);
  });

  it("in chunks of one byte counts with its overhead", async () => {
    const head = headerBlock({
      ":method": "POST",
      ":scheme": "http",
      ":authority": "a",
      ":path": METHOD,
      "content-type": "application/grpc",
    });
    const byte = http2Frame(DATA, 0, 1, Buffer.alloc(1));
    const socket = connect(world.listener.port, "127.0.0.1");
    socket.on("error", () => {});
    let received = Buffer.alloc(0);
    socket.on("data", (data) => (received = Buffer.concat([received, data])));
    socket.write(Buffer.concat([preface, http2Frame(HEADERS, END_HEADERS, 1, head), http2Frame(DATA, 0, 1, start(0))]));
    const isReset = () => received.includes(http2Frame(RESET, 0, 1, Buffer.alloc(4)));
    // Less than a third of the message.
    for (let sent = 0; !isReset() && sent < 30_000; sent += 100) {
      await new Promise((resolve) => socket.write(Buffer.concat(Array<Buffer>(100).fill(byte)), resolve));
    }
    await waitFor("the end of the call", isReset);
    socket.destroy();
  });

  it("and a reply that is not read end after a time", async () => {
    const own = await startEnvoyListener({ descriptors: allowAll, timeouts: { bodyMs: 100 } });
    openSession(own.url, { initialWindowSize: 0 });
    expect(await statusOf(call([start(10)], {}, false))).toBe(4);
    // Reset before the trailers.
    expect(await statusOf(call([frame(request())]))).toBeNaN();
    world.session.destroy();
    await own.close(0);
  });
});

describe("garbage", () => {
  function send(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const socket: Socket = connect(world.listener.port, "127.0.0.1", () => socket.end(bytes));
      socket.on("error", () => {});
      socket.on("close", () => resolve());
      socket.resume();
      // The server waits for the rest of a preface.
      setTimeout(() => socket.destroy(), 50);
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
