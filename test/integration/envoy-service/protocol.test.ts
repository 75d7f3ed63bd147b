/** The listener for Envoy at the protocol level: any chunking, invalid calls, access and shutdown. */
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { startEnvoyListener } from "../../support/envoy-listener.js";
import { pause, waitFor } from "../../support/wait-for.js";
import {
  allowAll,
  call,
  frame,
  METHOD,
  openSession,
  request,
  statusOf,
  TOKEN,
  useListener,
  world,
} from "./protocol-client.js";

useListener();

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
    const socket = connect(world.listener.port, "127.0.0.1");
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
    openSession(world.listener.url, { initialWindowSize: 10 });
    const replies = await Promise.all(Array.from({ length: 20 }, () => call([frame(request("v"), 0)])));
    for (const { body, trailers } of replies) {
      expect(body.readUInt32BE(1)).toBe(body.length - 5);
      expect(trailers["grpc-status"]).toBe("0");
    }
  });

  it("may have headers of several frames, up to a limit", async () => {
    // The settings are acknowledged only after the first call: the limit holds before and after.
    await expect(call([frame(request())], { "x-long": "a".repeat(17_000) })).rejects.toThrow("ENHANCE_YOUR_CALM");
    expect(await statusOf(call([frame(request())], { "x-long": "ü".repeat(8_000) }))).toBe(0);
    await expect(call([frame(request())], { "x-long": "a".repeat(17_000) })).rejects.toThrow("ENHANCE_YOUR_CALM");
    await expect(call([frame(request())], { "x-long": "ü".repeat(70_000) })).rejects.toThrow();
  });

  it("may have the longest timeout of gRPC, which does not overflow", async () => {
    const own = await startEnvoyListener({
      descriptors: {
        async decide(domain, descriptors) {
          await pause(30);
          return allowAll.decide(domain, descriptors);
        },
      },
    });
    openSession(own.url);
    expect(await statusOf(call([frame(request())], { "grpc-timeout": "99999999H" }))).toBe(0);
    await own.close(0);
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

describe("access", () => {
  it("needs the token of data planes if there is one, except for health checks", async () => {
    world.access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    expect(await statusOf(call([frame(request())]))).toBe(16);
    expect(await statusOf(call([frame(request())], { authorization: "Bearer not-the-token-at-all" }))).toBe(16);
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(0);
    expect(await statusOf(call([frame(request())]))).toBe(16);
    expect(await statusOf(call([frame(Buffer.alloc(0))], { ":path": "/grpc.health.v1.Health/Check" }))).toBe(0);
    world.access = { planeToken: "another-token-from-now-on", allow: ["127.0.0.0/8"] };
    expect(await statusOf(call([frame(request())], { authorization: `Bearer ${TOKEN}` }))).toBe(16);
  });

  it("is limited to listed addresses", async () => {
    world.access = { planeToken: "", allow: ["10.0.0.0/8"] };
    expect(await statusOf(call([frame(request())]))).toBe(7);
    expect((await fetch(`${world.listener.url}/json`, { method: "POST", body: "{}" })).status).toBe(403);
  });

  it("is checked for HTTP requests as well, and web pages are rejected", async () => {
    world.access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
    const post = (headers: Record<string, string>) =>
      fetch(`${world.listener.url}/json`, { method: "POST", body: "{}", headers }).then(({ status }) => status);
    expect(await post({})).toBe(401);
    expect(await post({ authorization: `Bearer ${TOKEN}` })).toBe(400);
    expect(await post({ authorization: `Bearer ${TOKEN}`, origin: "https://a.example" })).toBe(403);
  });
});

describe("closing the listener", () => {
  it("finishes running calls, and sends GOAWAY", async () => {
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
    const own = await startEnvoyListener({ descriptors: slow });
    openSession(own.url);
    const goaway = new Promise<number>((resolve) => world.session.on("goaway", resolve));
    const reply = call([frame(request())]);
    await waitFor("the call", () => asked);
    const closed = own.close(20_000);
    expect(await goaway).toBe(0);
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
    await waitFor("both connections", () => !quiet.connecting && idle.remoteSettings?.maxConcurrentStreams === 256);
    // Longer than any test may take.
    await own.close(600_000);
    quiet.destroy();
    idle.destroy();
  });

  it("disconnects calls that do not end in time", async () => {
    const own = await startEnvoyListener({ descriptors: { decide: () => new Promise(() => {}) } });
    openSession(own.url);
    const reply = call([frame(request())]).catch(() => undefined);
    await waitFor("a connection", () => world.session.connecting === false);
    await own.close(50);
    await reply;
  });
});
