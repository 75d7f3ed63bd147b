/** A real service process under attack: peers that send raw bytes, and what an attack costs the process in memory and CPU time. */
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { Agent, request } from "undici";
import { expect } from "vitest";
import type { TestAuthority } from "./certificates.js";
import {
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
  workersOf,
} from "./gateway-process.js";
import { freePort } from "./ports.js";
import { cpuMs, residentMb } from "./process-usage.js";

export interface Peer {
  socket: Socket;
  isClosed(): boolean;
  /** Writes and waits until the bytes were taken by the system, or the connection is closed, or nothing is read any more. */
  write(bytes: Buffer): Promise<boolean>;
}

export interface PeerOptions {
  /** The address to connect from. */
  from?: string;
  /** False: replies are not read. */
  reads?: boolean;
}

export interface AttackCost {
  memoryMb: number;
  cpuMs: number;
}

export interface AttackedService {
  gateway: GatewayProcess;
  backend: SmallBackend;
  /** Of the listener for Envoy. */
  port: number;
  worker: number;
  openPeer(options?: PeerOptions): Promise<Peer>;
  /** Runs an attack, checks that the gateway and the listener still reply, and returns what the attack has cost. */
  costOf(attack: () => Promise<Pick<Peer, "socket">[]>): Promise<AttackCost>;
  stop(): Promise<void>;
}

export interface AttackedServiceOptions {
  /** Further configuration. */
  yaml?: string;
  /** Further content of `control: { … }`. */
  control?: string;
  /** The backend of the gateway; one that replies at once by default. */
  target?: string;
  /** The gateway has TLS, and peers connect to it with HTTP/2 instead of to the listener for Envoy. */
  authority?: TestAuthority;
}

/** One worker without a token, as on the loopback address: everything that a peer may do without credentials can be tried. */
export async function startAttackedService(options: AttackedServiceOptions = {}): Promise<AttackedService> {
  const { yaml = "", control = "", authority } = options;
  const server = authority?.issue("server");
  const backend = await startSmallBackend();
  const port = await freePort();
  const gateway = await startGateway(
    `node_id: service
workers: 1
envoy: { listen: "127.0.0.1:${port}" }
upstreams: { backend: { targets: ["${options.target ?? backend.target}"] } }
routes: [{ path: /, upstream: backend }]
${server === undefined ? "" : `tls: { cert: ${server.cert}, key: ${server.key} }`}
${yaml}`,
    {
      control: `admin_token: admin-token-of-the-tests, ${control}`,
      env: { NODE_OPTIONS: "--max-old-space-size=512" },
      ...(authority && { ca: authority.pem }),
    },
  );
  const dispatcher = new Agent({ connect: { ca: authority?.pem } });
  const worker = workersOf(gateway.pid)[0]!;
  const memoryBefore = residentMb(worker);

  async function openPeer({ from = "127.0.0.1", reads = true }: PeerOptions = {}): Promise<Peer> {
    const address = { host: "127.0.0.1", localAddress: from };
    const socket =
      authority === undefined
        ? connect({ ...address, port })
        : connectTls({
            ...{ ...address, port: Number(new URL(gateway.url).port), ca: authority.pem },
            ALPNProtocols: ["h2"],
          });
    let closed = false;
    socket.on("error", () => {});
    socket.on("close", () => (closed = true));
    await new Promise((resolve) => socket.once(authority === undefined ? "connect" : "secureConnect", resolve));
    if (reads) socket.resume();
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

  async function costOf(attack: () => Promise<Pick<Peer, "socket">[]>): Promise<AttackCost> {
    const cpuBefore = cpuMs(worker);
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, residentMb(worker))), 50);
    try {
      const peers = await attack();
      expect((await request(`${gateway.url}/`, { dispatcher })).statusCode).toBe(200);
      expect((await request(`http://127.0.0.1:${port}/healthcheck`)).statusCode).toBe(200);
      most = Math.max(most, residentMb(worker));
      const used = cpuMs(worker) - cpuBefore;
      for (const { socket } of peers) socket.destroy();
      expect(workersOf(gateway.pid)).toEqual([worker]);
      const cost = { memoryMb: most - memoryBefore, cpuMs: used };
      console.log(`${expect.getState().currentTestName}: ${cost.memoryMb.toFixed()} MB, ${used} ms of CPU time`);
      return cost;
    } finally {
      clearInterval(watch);
    }
  }

  return {
    gateway,
    backend,
    port,
    worker,
    openPeer,
    costOf,
    async stop() {
      await dispatcher.destroy();
      await gateway.stop();
      await backend.stop();
    },
  };
}
