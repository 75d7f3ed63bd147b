/** Bodies without a declared length and WebSockets are charged while they pass: cut, delayed, or charged at the end. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { afterEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { startBackend, startRawBackend } from "../../../support/http-backend.js";
import { fetchReply, json, open, openRaw, replyTo } from "../../../support/http-client.js";
import { createCleanup } from "../../../support/http-proxy.js";
import { BURST, type MeteredGateway, QUANTUM, startMeteredGateway } from "../../../support/metered-gateway.js";
import { pause, waitFor } from "../../../support/wait-for.js";
import { startWebSocketBackend } from "../../../support/ws-backend.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

/** Far above the burst of 20 tokens. */
const QUANTA = 60;
const SIZE = QUANTA * QUANTUM;
const PUT = 5;
const GET = 1;

/** Chunks that do not match the quantum. */
function* chunks(size: number): Generator<Buffer> {
  for (let sent = 0; sent < size; sent += 50_000) yield Buffer.alloc(Math.min(50_000, size - sent), "x");
}

function startCountingBackend() {
  const seen = { bytes: 0, aborted: 0 };
  const listener = (request: IncomingMessage, response: { end(text: string): void }) => {
    request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
    request.on("error", () => seen.aborted++);
    request.on("end", () => response.end("stored"));
  };
  return { seen, starting: startBackend(listener) };
}

/** Sends a chunked PUT. The gateway may answer before it has read everything. */
function upload(port: number, size = SIZE) {
  const request = open(port, { method: "PUT" });
  request.on("error", () => undefined);
  const reply = replyTo(request);
  Readable.from(chunks(size)).pipe(request);
  return reply;
}

/** Waits until `tokens` are used up, and longer, so that more bytes would be noticed. */
async function standstill(moved: () => number, tokens: number): Promise<number> {
  await waitFor("the transfer to use its tokens", () => moved() > (tokens - 1) * QUANTUM);
  await pause(300);
  return moved();
}

/** Bytes that `tokens` pay for, and at most one more quantum, which is charged by the settlement. */
function expectPaid(bytes: number, tokens: number): void {
  expect(bytes).toBeGreaterThan((tokens - 1) * QUANTUM);
  expect(bytes).toBeLessThan((tokens + 1) * QUANTUM);
}

const price = (base: number, bytes: number) => base + Math.ceil(bytes / QUANTUM);

describe("a chunked upload above the burst", () => {
  it("with `cut` is refused with 429 when the tokens are spent, and charged for what has passed", async () => {
    const { seen, starting } = startCountingBackend();
    const backend = await cleanup.add(starting);
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "cut" }));
    const reply = await upload(gateway.port);
    expect(reply.status).toBe(429);
    expect(json(reply)).toMatchObject({ error: "rate_limit_exceeded", reason: "quota_exhausted", app_id: "default" });
    expect(Number(reply.headers["retry-after"])).toBeGreaterThan(0);
    expect(reply.headers.connection).toBe("close");
    await waitFor("the backend to see the abort", () => seen.aborted === 1);
    expectPaid(seen.bytes, BURST - PUT);
    expect(gateway.lines).toContainEqual(
      expect.objectContaining({ level: "warn", reason: "quota_exhausted", message: "exchange failed" }),
    );
    expect(gateway.limited()).toEqual({ aborted: 1 });
    const charged = await gateway.charged();
    expect(charged).toBeLessThanOrEqual(BURST + 1);
    expect(charged).toBeGreaterThanOrEqual(price(PUT, seen.bytes));
  });

  it("with `delay` stands still while there are no tokens, continues with new ones, and is charged exactly", async () => {
    const { seen, starting } = startCountingBackend();
    const backend = await cleanup.add(starting);
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "delay" }));
    const replied = upload(gateway.port);
    expectPaid(await standstill(() => seen.bytes, BURST - PUT), BURST - PUT);
    gateway.refill(10);
    expectPaid(await standstill(() => seen.bytes, BURST - PUT + 10), BURST - PUT + 10);
    await refillUntil(gateway, () => seen.bytes === SIZE);
    expect((await replied).body).toBe("stored");
    expect(seen.bytes).toBe(SIZE);
    expect(gateway.limited()).toEqual({ delayed: 1 });
    expect(await gateway.charged()).toBe(PUT + QUANTA + 1);
  });

  it("with `delay` is refused with 429 after body_idle_ms without tokens", async () => {
    const { seen, starting } = startCountingBackend();
    const backend = await cleanup.add(starting);
    const gateway = await cleanup.add(
      startMeteredGateway({ target: backend.target, policy: "delay", bodyIdleMs: 500 }),
    );
    const reply = await upload(gateway.port);
    expect(reply.status).toBe(429);
    expectPaid(seen.bytes, BURST - PUT);
  });

  it("with `charge` passes and leaves a debt", async () => {
    const { seen, starting } = startCountingBackend();
    const backend = await cleanup.add(starting);
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "charge" }));
    expect((await upload(gateway.port)).body).toBe("stored");
    expect(seen.bytes).toBe(SIZE);
    expect(await gateway.charged()).toBe(PUT + QUANTA + 1);
  });

  it("passes on a dry run", async () => {
    const { seen, starting } = startCountingBackend();
    const backend = await cleanup.add(starting);
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "cut", dryRun: true }));
    expect((await upload(gateway.port)).body).toBe("stored");
    expect(seen.bytes).toBe(SIZE);
  });
});

type Framing = "chunked" | "ended by close";

/** Sends SIZE bytes, without a length. */
function startSendingBackend(framing: Framing, size = SIZE) {
  const head = framing === "chunked" ? "Transfer-Encoding: chunked" : "Connection: close";
  return startRawBackend((socket) => {
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n`);
      for (const chunk of chunks(size)) {
        if (framing === "chunked") socket.write(`${chunk.length.toString(16)}\r\n`);
        socket.write(chunk);
        if (framing === "chunked") socket.write("\r\n");
      }
      if (framing === "chunked") socket.write("0\r\n\r\n");
      else socket.end();
    });
  });
}

async function download(port: number) {
  const request = open(port);
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const got = { bytes: 0, end: new Promise<"complete" | "broken">(() => undefined) };
  response.on("data", (chunk: Buffer) => (got.bytes += chunk.length));
  got.end = once(response, "end").then(
    () => "complete",
    () => "broken",
  );
  return got;
}

async function refillUntil(gateway: MeteredGateway, done: () => boolean): Promise<void> {
  await waitFor(
    "the end of the transfer",
    () => {
      gateway.refill(10);
      return done();
    },
    { everyMs: 20 },
  );
}

describe.each<Framing>(["chunked", "ended by close"])("a response above the burst, %s", (framing) => {
  it("with `cut` is aborted when the tokens are spent, and charged for what has passed", async () => {
    const backend = await cleanup.add(startSendingBackend(framing));
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "cut" }));
    const got = await download(gateway.port);
    expect(await got.end).toBe("broken");
    expect(got.bytes).toBeLessThan((BURST - GET + 1) * QUANTUM);
    const charged = await gateway.charged();
    expect(charged).toBeLessThanOrEqual(BURST + 1);
    expect(charged).toBeGreaterThanOrEqual(price(GET, got.bytes));
  });

  it("with `delay` stands still while there are no tokens, arrives completely, and is charged exactly", async () => {
    const backend = await cleanup.add(startSendingBackend(framing));
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "delay" }));
    const got = await download(gateway.port);
    expectPaid(await standstill(() => got.bytes, BURST - GET), BURST - GET);
    await refillUntil(gateway, () => got.bytes === SIZE);
    expect(await got.end).toBe("complete");
    expect(await gateway.charged()).toBe(GET + QUANTA);
  });

  it("with `delay` is aborted after body_idle_ms without tokens", async () => {
    const backend = await cleanup.add(startSendingBackend(framing));
    const gateway = await cleanup.add(
      startMeteredGateway({ target: backend.target, policy: "delay", bodyIdleMs: 500 }),
    );
    const got = await download(gateway.port);
    expect(await got.end).toBe("broken");
    expectPaid(got.bytes, BURST - GET);
  });

  it("with `charge` arrives completely and leaves a debt", async () => {
    const backend = await cleanup.add(startSendingBackend(framing));
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "charge" }));
    const got = await download(gateway.port);
    expect(await got.end).toBe("complete");
    expect(got.bytes).toBe(SIZE);
    expect(await gateway.charged()).toBe(GET + QUANTA);
  });

  it("arrives completely if the backend has closed its connection while the last bytes were held back", async () => {
    const size = BURST * QUANTUM;
    const backend = await cleanup.add(startSendingBackend(framing, size));
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "delay" }));
    const got = await download(gateway.port);
    await standstill(() => got.bytes, BURST - GET);
    expect(got.bytes).toBeLessThan(size);
    gateway.refill(10);
    expect(await got.end).toBe("complete");
    expect(got.bytes).toBe(size);
    expect(await gateway.charged()).toBe(GET + BURST);
  });
});

describe("a body of one quantum without a length", () => {
  it("is never held back, and charged by the settlement", async () => {
    const { starting } = startCountingBackend();
    const backend = await cleanup.add(starting);
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "cut" }));
    for (let i = 0; i < BURST - PUT; i++) await fetchReply(gateway.port, "/", { method: "HEAD" });
    expect((await upload(gateway.port, QUANTUM - 10)).status).toBe(200);
    expect(await gateway.charged()).toBe(BURST + 1);
  });
});

describe("a backend that resets its connection while its response is held back", () => {
  it("breaks only this response", async () => {
    const sockets: Socket[] = [];
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        sockets.push(socket);
        socket.once("data", () => {
          socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
          socket.write(Buffer.alloc(BURST * QUANTUM));
        });
      }),
    );
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "delay" }));
    const got = await download(gateway.port);
    await standstill(() => got.bytes, BURST - GET);
    sockets[0]!.resetAndDestroy();
    expect(await got.end).toBe("broken");
    expect((await fetchReply(gateway.port, "/", { method: "PUT" })).status).toBe(429);
  });
});

async function connectSocket(port: number) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
  socket.on("error", () => undefined);
  const closed = once(socket, "close").then(([code, reason]) => ({ code: Number(code), reason: String(reason) }));
  await once(socket, "open");
  return { socket, closed };
}

/** A message is one frame in a chunk of its own, mostly. */
const MESSAGE = Buffer.alloc(16_000, "x");

describe("a WebSocket whose bytes exceed the burst", () => {
  async function start(policy: "cut" | "delay" | "charge", bodyIdleMs?: number) {
    const seen = { bytes: 0, closeCode: 0 };
    const backend = await cleanup.add(
      startWebSocketBackend((socket) => {
        socket.on("message", (data: Buffer) => {
          seen.bytes += data.length;
          if (String(data.subarray(0, 4)) === "echo") socket.send(data);
        });
        socket.on("close", (code) => (seen.closeCode = code));
      }),
    );
    const options = { target: backend.target, policy, ...(bodyIdleMs === undefined ? {} : { bodyIdleMs }) };
    const gateway = await cleanup.add(startMeteredGateway(options));
    return { seen, gateway, ...(await connectSocket(gateway.port)) };
  }

  it("with `cut` is closed with 1008, and charged for what has passed", async () => {
    const { seen, gateway, socket, closed } = await start("cut");
    for (let sent = 0; sent < SIZE; sent += MESSAGE.length) socket.send(MESSAGE);
    expect(await closed).toEqual({ code: 1008, reason: "rate limit exceeded" });
    expect(seen.bytes).toBeLessThan((BURST + 1) * QUANTUM);
    expect(gateway.lines).toContainEqual(
      expect.objectContaining({ reason: "quota_exhausted", message: "connection closed: no tokens for its bytes" }),
    );
    const charged = await gateway.charged();
    expect(charged).toBeLessThanOrEqual(BURST + 1);
    expect(charged).toBeGreaterThanOrEqual(price(GET, seen.bytes));
  });

  it("with `delay` stands still while there are no tokens, and continues with new ones, in both directions", async () => {
    const { seen, gateway, socket, closed } = await start("delay");
    const echoed = { bytes: 0 };
    socket.on("message", (data: Buffer) => (echoed.bytes += data.length));
    const message = Buffer.concat([Buffer.from("echo"), MESSAGE]);
    const count = Math.ceil(SIZE / 2 / message.length);
    for (let i = 0; i < count; i++) socket.send(message);
    const stopped = await standstill(() => seen.bytes + echoed.bytes, BURST - 2);
    expect(stopped).toBeLessThan((BURST + 1) * QUANTUM);
    await refillUntil(gateway, () => echoed.bytes === count * message.length);
    socket.close(1000);
    expect(await closed).toMatchObject({ code: 1000 });
    // Frames have headers of 4 bytes, and 4 more with a mask; close frames have no size worth a quantum.
    const bytes = count * (2 * message.length + 12);
    const charged = await gateway.charged();
    expect(charged).toBeGreaterThanOrEqual(price(GET, bytes));
    expect(charged).toBeLessThanOrEqual(price(GET, bytes + 100));
  });

  it("with `delay` is closed with 1008 after body_idle_ms without tokens", async () => {
    const { seen, socket, closed } = await start("delay", 500);
    for (let sent = 0; sent < SIZE; sent += MESSAGE.length) socket.send(MESSAGE);
    expect(await closed).toMatchObject({ code: 1008 });
    expect(seen.bytes).toBeLessThan((BURST + 1) * QUANTUM);
  });

  it("with `charge` passes everything and leaves a debt", async () => {
    const { seen, gateway, socket, closed } = await start("charge");
    for (let sent = 0; sent < SIZE; sent += MESSAGE.length) socket.send(MESSAGE);
    await waitFor("all messages", () => seen.bytes >= SIZE);
    socket.close(1000);
    expect(await closed).toMatchObject({ code: 1000 });
    expect(await gateway.charged()).toBeGreaterThanOrEqual(price(GET, SIZE));
  });

  it("passes on what was sent before the end, even if it was held back", async () => {
    const { seen, gateway, socket, closed } = await start("delay");
    const count = BURST * 5;
    for (let i = 0; i < count; i++) socket.send(MESSAGE);
    socket.close(1000);
    await standstill(() => seen.bytes, BURST - 2);
    await refillUntil(gateway, () => seen.bytes === count * MESSAGE.length);
    expect(await closed).toMatchObject({ code: 1000 });
    await waitFor("the close frame at the backend", () => seen.closeCode === 1000);
  });
});

describe("a client of another protocol that ends its direction while its bytes are held back", () => {
  it("is not cut off", async () => {
    // A WebSocket by name only: the frames are not looked at by this backend.
    const seen = { bytes: 0, ended: false };
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        socket.once("data", () => {
          socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
          socket.on("data", (chunk) => (seen.bytes += chunk.length));
          socket.on("end", () => (seen.ended = true));
        });
      }),
    );
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "delay" }));
    const client = await openRaw(gateway.port);
    client.write(
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    await client.until((text) => text.includes("101 Switching"));
    const size = BURST * QUANTUM;
    client.socket.end(Buffer.alloc(size, 1));
    await standstill(() => seen.bytes, BURST - 2);
    expect(seen.ended).toBe(false);
    await refillUntil(gateway, () => seen.bytes === size);
    await waitFor("the end at the backend", () => seen.ended);
  });
});
