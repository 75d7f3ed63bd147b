/** Transfers without a declared length through a metered plane, and backends for them. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { expect } from "vitest";
import { startBackend, startRawBackend } from "./http-backend.js";
import { open, replyTo } from "./http-client.js";
import { type MeteredPlane, type MeteredPlaneOptions, QUANTUM } from "./metered-gateway.js";
import { pause, waitFor } from "./wait-for.js";

/** A plane that plays the scenarios. */
export interface MeteringPlane {
  start(options: MeteredPlaneOptions): Promise<MeteredPlane>;
  /** What a WebSocket gets that is cut between two frames. */
  cutSocket: { code: number; reason: string };
  /** The plane does not notice that a backend has reset its connection while it does not read: patience ends the response. */
  missesResets?: boolean;
  /** The plane reports transfers that it delays and aborts. */
  expectLimited?(plane: MeteredPlane, limited: Record<string, number>): void;
  /** The plane logs what it cuts. */
  expectLogged?(plane: MeteredPlane, fields: Record<string, unknown>): void;
}

/** Far above the burst of 20 tokens. */
export const QUANTA = 60;
export const SIZE = QUANTA * QUANTUM;
export const PUT = 5;
export const GET = 1;

/** Chunks that do not match the quantum. */
export function* chunks(size: number): Generator<Buffer> {
  for (let sent = 0; sent < size; sent += 50_000) yield Buffer.alloc(Math.min(50_000, size - sent), "x");
}

export function startCountingBackend() {
  const seen = { bytes: 0, aborted: 0 };
  const listener = (request: IncomingMessage, response: { end(text: string): void }) => {
    request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
    request.on("error", () => seen.aborted++);
    request.on("end", () => response.end("stored"));
  };
  return { seen, starting: startBackend(listener) };
}

/** Sends a chunked PUT. The gateway may answer before it has read everything. */
export function upload(port: number, size = SIZE) {
  const request = open(port, { method: "PUT" });
  request.on("error", () => undefined);
  const reply = replyTo(request);
  Readable.from(chunks(size)).pipe(request);
  return reply;
}

/** Quanta that the plane reads at once, at most: it holds all of them back if it cannot pay for one. */
const MOST_HELD = 3;

/** Waits until `tokens` are used up, and longer, so that more bytes would be noticed. */
export async function standstill(moved: () => number, tokens: number): Promise<number> {
  await waitFor("the transfer to use its tokens", () => moved() > (tokens - MOST_HELD) * QUANTUM);
  await pause(300);
  return moved();
}

/** Bytes that `tokens` pay for, and at most one more quantum, which is charged by the settlement. */
export function expectPaid(bytes: number, tokens: number): void {
  expect(bytes).toBeGreaterThan((tokens - MOST_HELD) * QUANTUM);
  expect(bytes).toBeLessThan((tokens + 1) * QUANTUM);
}

export const price = (base: number, bytes: number) => base + Math.ceil(bytes / QUANTUM);

export type Framing = "chunked" | "ended by close";

/** Sends SIZE bytes, without a length. */
export function startSendingBackend(framing: Framing, size = SIZE) {
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

export async function download(port: number) {
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

export async function refillUntil(gateway: MeteredPlane, done: () => boolean): Promise<void> {
  await waitFor(
    "the end of the transfer",
    () => {
      gateway.refill(10);
      return done();
    },
    { everyMs: 20 },
  );
}
