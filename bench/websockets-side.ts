/** One process of the WebSocket benchmark: `tsx websockets-side.ts <role> <arguments>`, controlled by messages. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { Agent, createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createProxyServer } from "http-proxy-3";
import { WebSocket, WebSocketServer } from "ws";
import { readConfig } from "../src/config/load.js";
import { createGateway } from "../src/service/process/gateway.js";
import { createEmbeddedStore } from "../src/store/embedded/embedded-store.js";

export type Order =
  | { do: "memory" }
  | { do: "open"; port: number; count: number }
  | { do: "close-all" }
  | { do: "churn"; port: number; milliseconds: number }
  | { do: "echo"; port: number; bytes: number };

export interface Told {
  /** Resident bytes after garbage collection. */
  memory: { bytes: number };
  open: { milliseconds: number };
  "close-all": { milliseconds: number };
  /** Connections opened and closed. */
  churn: { connects: number; milliseconds: number };
  /** Whether the echoed bytes are equal to the bytes sent. */
  echo: { bytes: number; milliseconds: number; intact: boolean };
}

const MIB = 1_048_576;
/** Connections opened at a time. */
const AT_ONCE = 64;
/** Several addresses, because each pair has a limited number of ports. */
const ADDRESSES = 8;
const BACKEND_PORTS = 4;
const closeFrame = Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]);
const head = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://a\r\nUser-Agent: bench\r\n\r\n";
const switching =
  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

async function listen(server: Server, host: string): Promise<number> {
  server.listen({ port: 0, host, backlog: 4_096 });
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** `/echo` is a WebSocket. Other connections are only kept open, at little cost. */
async function backend(): Promise<number[]> {
  const echoing = new WebSocketServer({ noServer: true, maxPayload: 64 * MIB });
  echoing.on("connection", (socket) => {
    socket.on("message", (data, isBinary) => {
      socket.send(data, { binary: isBinary });
      // Backpressure: read as fast as the client does.
      if (socket.bufferedAmount > 4 * MIB) {
        socket.pause();
        const wait = setInterval(() => {
          if (socket.bufferedAmount > MIB) return;
          clearInterval(wait);
          socket.resume();
        }, 1);
      }
    });
  });
  const ports: number[] = [];
  for (let n = 0; n < BACKEND_PORTS; n++) {
    const server = createServer();
    server.on("upgrade", (request, socket, early) => {
      if (request.url === "/echo") {
        echoing.handleUpgrade(request, socket, early, (ws) => echoing.emit("connection", ws, request));
        return;
      }
      socket.on("error", () => socket.destroy());
      socket.on("data", () => socket.end(closeFrame.subarray(0, 0)));
      socket.on("end", () => socket.end());
      socket.write(switching);
    });
    ports.push(await listen(server, "127.0.0.1"));
  }
  return ports;
}

/** The gateway as in the service, with its own store. */
async function gateway(ports: string[]): Promise<number[]> {
  const targets = ports.map((port) => `"127.0.0.1:${port}"`).join(", ");
  const { config, problems } = readConfig(
    `
cluster: { capacity: 100000000, rate: 100000000 }
apps: { default: { guaranteed: 10000000, burst: 100000000 } }
upstreams: { pods: { targets: [${targets}] } }
routes:
  - { path: /, upstream: pods, connections: { max_per_pod: 100000, max_total: 0, rate_per_second: 0, lease_s: 30 } }
`,
    {},
  );
  if (config === undefined) throw new Error(JSON.stringify(problems));
  const log = { debug: () => undefined, info: () => undefined, warn: console.error, error: console.error };
  const { proxy } = createGateway({ config, configVersion: "", node: "bench", store: createEmbeddedStore(), log });
  return [await listen(proxy.server, "0.0.0.0")];
}

async function peer(ports: string[]): Promise<number[]> {
  const proxy = createProxyServer({ agent: new Agent({ keepAlive: false }), ws: true });
  proxy.on("error", () => undefined);
  let turn = 0;
  const server = createServer();
  server.on("upgrade", (request, socket, early) => {
    proxy.ws(request, socket, early, { target: `http://127.0.0.1:${ports[turn++ % ports.length]}` });
  });
  return [await listen(server, "0.0.0.0")];
}

const held = new Set<Socket>();
let address = 0;

/** Resolves when the connection has been upgraded. */
function openOne(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: `127.0.0.${1 + (address++ % ADDRESSES)}`, noDelay: true });
    socket.on("error", reject);
    socket.once("data", (answer) => {
      if (answer.toString("latin1", 9, 12) === "101") resolve(socket);
      else reject(new Error(answer.toString("latin1")));
    });
    socket.write(head("/"));
  });
}

async function inParallel(work: () => Promise<boolean>): Promise<void> {
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (await work());
    }),
  );
}

async function timed(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

async function open(port: number, count: number): Promise<Told["open"]> {
  let begun = 0;
  const milliseconds = await timed(() =>
    inParallel(async () => {
      if (begun++ >= count) return false;
      held.add(await openOne(port));
      return true;
    }),
  );
  return { milliseconds };
}

async function sayGoodbye(socket: Socket): Promise<void> {
  const closed = once(socket, "close");
  socket.end(closeFrame);
  socket.resume();
  await closed;
}

async function closeAll(): Promise<Told["close-all"]> {
  const milliseconds = await timed(async () => {
    await Promise.all([...held].map(sayGoodbye));
    held.clear();
  });
  return { milliseconds };
}

async function churn(port: number, forMs: number): Promise<Told["churn"]> {
  let connects = 0;
  const end = performance.now() + forMs;
  const milliseconds = await timed(() =>
    inParallel(async () => {
      await sayGoodbye(await openOne(port));
      connects++;
      return performance.now() < end;
    }),
  );
  return { connects, milliseconds };
}

/** Random frames of all sizes, including empty ones, on four connections. */
async function echo(port: number, bytes: number): Promise<Told["echo"]> {
  const block = randomBytes(16 * MIB);
  let intact = true;
  async function exchange(share: number): Promise<void> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/echo`, { perMessageDeflate: false, maxPayload: 64 * MIB });
    await once(socket, "open");
    const [sent, received] = [createHash("sha1"), createHash("sha1")];
    let arrived = 0;
    const whole = new Promise<void>((resolve) => {
      socket.on("message", (data: Buffer) => {
        received.update(data);
        arrived += data.length;
        if (arrived === share) resolve();
      });
    });
    for (let at = 0, n = 0; at < share; n++) {
      const wanted = n % 50 === 0 ? 0 : n % 10 === 0 ? MIB : Math.floor(Math.random() * 131_072);
      const size = Math.min(wanted, share - at);
      const from = Math.floor(Math.random() * (block.length - size));
      // A copy, because the client masks the buffer in place.
      const data = Buffer.from(block.subarray(from, from + size));
      sent.update(data);
      at += size;
      await new Promise((done) => socket.send(data, done));
      while (at - arrived > 16 * MIB) await new Promise((done) => setTimeout(done, 1));
    }
    await whole;
    if (sent.digest("hex") !== received.digest("hex")) intact = false;
    socket.close();
  }
  const milliseconds = await timed(async () => {
    await Promise.all([1, 2, 3, 4].map(() => exchange(bytes / 4)));
  });
  return { bytes, milliseconds, intact };
}

function memory(): Told["memory"] {
  for (let n = 0; n < 4; n++) global.gc?.();
  return { bytes: process.memoryUsage.rss() };
}

async function obey(order: Order): Promise<Told[Order["do"]]> {
  switch (order.do) {
    case "memory":
      return memory();
    case "open":
      return open(order.port, order.count);
    case "close-all":
      return closeAll();
    case "churn":
      return churn(order.port, order.milliseconds);
    case "echo":
      return echo(order.port, order.bytes);
  }
}

const roles: Record<string, (args: string[]) => Promise<number[]>> = { backend, gateway, peer, client: async () => [] };
const [role = "", ...args] = process.argv.slice(2);
process.on("message", async (order: Order) => process.send!(await obey(order)));
process.on("disconnect", () => process.exit());
process.send!(await roles[role]!(args));
