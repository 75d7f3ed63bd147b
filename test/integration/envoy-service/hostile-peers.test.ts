/** Hostile peers of the listener for Envoy: floods, endless headers, idle connections and garbage end at most their own connection. */
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { array, assert, asyncProperty, constantFrom, nat, tuple, uint8Array } from "fast-check";
import { describe, expect, it } from "vitest";
import { startEnvoyListener } from "../../support/envoy-listener.js";
import { waitFor } from "../../support/wait-for.js";
import {
  allowAll,
  call,
  frame,
  openSession,
  preface,
  request,
  statusOf,
  TOKEN,
  useListener,
  world,
} from "./protocol-client.js";

useListener();

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
    ":authority": "a",
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

  it("has at most 1,000 calls running on a connection", async () => {
    const calls = Array.from({ length: 1_050 }, (_, i) => http2Frame(1, 4, 2 * i + 1, callHeaders));
    const socket = connect(world.listener.port, "127.0.0.1");
    socket.on("error", () => {}).resume();
    socket.write(preface);
    await new Promise((resolve) => socket.once("data", resolve));
    // The limit applies when the settings are acknowledged.
    socket.write(Buffer.concat([http2Frame(4, 1, 0, Buffer.alloc(0)), ...calls]));
    await waitFor("the calls up to the limit", () => world.streams.length >= 1_000);
    expect(await statusOf(call([frame(request())]))).toBe(0);
    expect(world.streams).toHaveLength(1_000);
    socket.destroy();
  });

  it("cannot keep idle connections without an authorized call", async () => {
    world.access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    const own = await startEnvoyListener({ descriptors: allowAll, access: () => world.access, unauthorizedIdleMs: 50 });
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

describe("garbage", () => {
  function send(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const socket: Socket = connect(world.listener.port, "127.0.0.1", () => socket.end(bytes));
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
