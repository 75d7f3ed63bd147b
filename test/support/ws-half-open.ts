/**
 * A program for a network of its own (`unshare`), where addresses can vanish: of three WebSockets through a proxy, one
 * loses its client like that, one its backend. It prints what the proxy made of it.
 */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";
import { createProxy } from "../../src/planes/node/http/proxy.js";
import { pause } from "./wait-for.js";

const CLIENT = "10.1.0.1";
const BACKEND = "10.1.0.2";
const WAIT_MS = 40_000;

const ip = (...args: string[]) => execFileSync("ip", args);

async function backendOn(host: string): Promise<WebSocketServer> {
  const server = new WebSocketServer({ host, port: 0 });
  await once(server, "listening");
  return server;
}

/** Nothing tells the other end: what is sent to it goes nowhere. */
function vanish(address: string): void {
  ip("addr", "del", `${address}/32`, "dev", "lo");
  ip("route", "add", "blackhole", `${address}/32`);
}

ip("link", "set", "lo", "up");
for (const address of [CLIENT, BACKEND]) ip("addr", "add", `${address}/32`, "dev", "lo");
const backends = [await backendOn("127.0.0.1"), await backendOn(BACKEND)];
const targets = backends.map((server) => {
  const { address, port } = server.address() as AddressInfo;
  return `${address}:${port}`;
});
const releases: number[] = [];
/** Of the next connection. */
let wantedPod = 0;
const verdict = { allowed: true, headers: {}, status: 200, body: "", app: "app" };
const proxy = createProxy({
  routes: [{ path: "/", upstream: "backend", connections: { pingMs: 1_000 } }],
  upstreams: { backend: { targets } },
  timeouts: { lingerMs: 200 },
  admission: { admit: () => verdict, settle: () => undefined },
  upgrades: {
    async admit({ pods }) {
      const at = releases.push(0) - 1;
      const slot = { connection: String(at), release: () => void releases[at]!++, onLost: () => undefined };
      return { allowed: true, headers: {}, pod: pods[wantedPod]!, slot };
    },
  },
  log: { info: () => undefined, warn: () => undefined },
});
proxy.server.listen(0, "127.0.0.1");
await once(proxy.server, "listening");
const { port } = proxy.server.address() as AddressInfo;

async function open(localAddress: string, pod: number): Promise<WebSocket> {
  wantedPod = pod;
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { localAddress });
  socket.on("error", () => undefined);
  await once(socket, "open");
  return socket;
}

const lostClient = await open(CLIENT, 0);
const lostBackend = await open("127.0.0.1", 1);
const staying = await open("127.0.0.1", 0);
vanish(CLIENT);
vanish(BACKEND);
const end = Date.now() + WAIT_MS;
while ((releases[0] === 0 || releases[1] === 0) && Date.now() < end) await pause(50);
await pause(100);
console.log(
  JSON.stringify({
    releases,
    open: proxy.upgradedConnections(),
    seenByBackend: backends[0]!.clients.size,
    lostBackendIsClosed: lostBackend.readyState === WebSocket.CLOSED,
    stayingIsOpen: staying.readyState === WebSocket.OPEN,
    lostClientKnows: lostClient.readyState !== WebSocket.OPEN,
  }),
);
process.exit(0);
