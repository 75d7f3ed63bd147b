/** Attacks on the listener for Envoy of a real service process, with budgets for its memory and CPU time. */
import { connect, type Socket } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
  workersOf,
} from "../../support/gateway-process.js";
import {
  ACK,
  DATA,
  END_HEADERS,
  END_STREAM,
  HEADERS,
  headerBlock,
  headersFrames,
  http2Frame,
  huffmanHeader,
  prefaceWith,
  SETTINGS,
  windowUpdate,
} from "../../support/http2-frames.js";
import { freePort } from "../../support/ports.js";
import { cpuMs, residentMb } from "../../support/process-usage.js";
import { waitFor } from "../../support/wait-for.js";

const METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const INITIAL_WINDOW = 4;
const MIB = 1_048_576;
const acknowledged = http2Frame(SETTINGS, ACK, 0);

let backend: SmallBackend;
let gateway: GatewayProcess;
let port: number;
let worker: number;
/** Of the worker before the attacks. */
let memoryBefore: number;

/** Without a token, as on the loopback address: everything that a peer may do without credentials can be tried. */
beforeAll(async () => {
  backend = await startSmallBackend();
  port = await freePort();
  gateway = await startGateway(
    `node_id: service
workers: 1
envoy: { listen: "127.0.0.1:${port}" }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`,
    { control: "admin_token: admin-token-of-the-tests", env: { NODE_OPTIONS: "--max-old-space-size=512" } },
  );
  worker = workersOf(gateway.pid)[0]!;
  memoryBefore = residentMb(worker);
});
afterAll(async () => {
  await gateway?.stop();
  await backend?.stop();
});

interface Peer {
  socket: Socket;
  isClosed(): boolean;
  /** Writes and waits until the bytes were taken by the system, or the connection is closed, or nothing is read any more. */
  write(bytes: Buffer): Promise<boolean>;
}

/** A peer that reads and ignores all replies. */
async function openPeer(): Promise<Peer> {
  const socket = connect(port, "127.0.0.1");
  let closed = false;
  socket.on("error", () => {});
  socket.on("close", () => (closed = true));
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.resume();
  return {
    socket,
    isClosed: () => closed,
    write: (bytes) =>
      new Promise((resolve) => {
        if (closed) return resolve(false);
        const timer = setTimeout(() => resolve(false), 2_000);
        socket.write(bytes, (error) => {
          clearTimeout(timer);
          resolve(!error);
        });
      }),
  };
}

const grpcCall = headerBlock({
  ":method": "POST",
  ":scheme": "http",
  ":authority": "a",
  ":path": METHOD,
  "content-type": "application/grpc",
});
const get = (path: string, method = "GET") =>
  headerBlock({ ":method": method, ":scheme": "http", ":authority": "a", ":path": path });

/** Runs an attack, checks that the gateway and the listener still reply, and returns what the attack has cost. */
async function costOf(attack: () => Promise<Peer[]>): Promise<{ memoryMb: number; cpuMs: number }> {
  const cpuBefore = cpuMs(worker);
  let most = 0;
  const watch = setInterval(() => (most = Math.max(most, residentMb(worker))), 50);
  try {
    const peers = await attack();
    expect((await request(`${gateway.url}/`)).statusCode).toBe(200);
    expect((await request(`http://127.0.0.1:${port}/healthcheck`)).statusCode).toBe(200);
    most = Math.max(most, residentMb(worker));
    const used = cpuMs(worker) - cpuBefore;
    for (const { socket } of peers) socket.destroy();
    expect(workersOf(gateway.pid)).toEqual([worker]);
    return { memoryMb: most - memoryBefore, cpuMs: used };
  } finally {
    clearInterval(watch);
  }
}

/** Sends `bytes` on `streams` streams in turn, each of them as one DATA frame of 16 KiB at a time. */
async function fill(peer: Peer, streams: number, start: Buffer, bytes: number): Promise<void> {
  const chunk = Buffer.alloc(16_384);
  for (let i = 0; i < streams; i++) await peer.write(http2Frame(DATA, 0, 2 * i + 1, start));
  for (let sent = 0; sent < bytes; sent += chunk.length) {
    for (let i = 0; i < streams; i++) if (!(await peer.write(http2Frame(DATA, 0, 2 * i + 1, chunk)))) return;
  }
}

describe("an attack on the listener for Envoy stays within its budget of memory and CPU time:", () => {
  it.for([
    ["messages", grpcCall, Buffer.from([0, 0, 0x40, 0, 0])],
    ["health check bodies", get("/healthcheck"), Buffer.alloc(1)],
  ] as const)("120 streams that announce 4 MiB and never finish (%s)", async ([, head, start]) => {
    const cost = await costOf(async () => {
      const peer = await openPeer();
      const heads = Array.from({ length: 120 }, (_, i) => http2Frame(HEADERS, END_HEADERS, 2 * i + 1, head));
      await peer.write(Buffer.concat([prefaceWith(), acknowledged, ...heads]));
      await fill(peer, 120, start, 4 * MIB - 32_768);
      return [peer];
    });
    expect(cost.memoryMb).toBeLessThan(200);
  });

  it.for([
    ["settings acknowledged", acknowledged],
    ["settings not acknowledged", Buffer.alloc(0)],
  ] as const)("24 MB of Huffman-coded headers of 60 kB (%s)", async ([, acknowledgement]) => {
    const cost = await costOf(async () => {
      const peer = await openPeer();
      await peer.write(Buffer.concat([prefaceWith(), acknowledgement]));
      const block = Buffer.concat([get("/healthcheck"), huffmanHeader("x", 60_000)]);
      for (let sent = 0, stream = 1; sent < 24e6; sent += block.length, stream += 2) {
        if (!(await peer.write(headersFrames(stream, block)))) break;
      }
      return [peer];
    });
    expect(cost.memoryMb).toBeLessThan(150);
    expect(cost.cpuMs).toBeLessThan(6_000);
  });

  it("9,999 blocked streams and window updates", async () => {
    const cost = await costOf(async () => {
      const peer = await openPeer();
      await peer.write(Buffer.concat([prefaceWith({ [INITIAL_WINDOW]: 0 }), acknowledged]));
      const block = get("/healthcheck");
      for (let i = 0; i < 9_999; i += 99) {
        const heads = Array.from({ length: 99 }, (_, k) =>
          http2Frame(HEADERS, END_HEADERS | END_STREAM, 2 * (i + k) + 1, block),
        );
        if (!(await peer.write(Buffer.concat(heads)))) break;
      }
      await peer.write(Buffer.concat(Array.from({ length: 5_000 }, () => windowUpdate(0, 1))));
      return [peer];
    });
    expect(cost.memoryMb).toBeLessThan(150);
    expect(cost.cpuMs).toBeLessThan(6_000);
  });

  it.for([
    ["three bytes of the HTTP/2 preface", "PRI"],
    ["no settings after the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["no acknowledgement of the settings", prefaceWith().toString("latin1")],
    ["an incomplete HTTP/1.1 header", "GET /health"],
  ] as const)("%s: the connection is closed within seconds", { concurrent: true }, async ([, text]) => {
    const peer = await openPeer();
    await peer.write(Buffer.from(text, "latin1"));
    await waitFor("the end of the connection", peer.isClosed, { withinMs: 30_000 });
  });
});
