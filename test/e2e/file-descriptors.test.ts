/** A real service with few file descriptors: idle connections of one client end nothing, and other clients are served. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestAuthority } from "../support/certificates.js";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
  workersOf,
} from "../support/gateway-process.js";
import { waitFor } from "../support/wait-for.js";

const FILES = 1_024;
const authority = createTestAuthority();
const { cert, key } = authority.issue("server");
let backend: SmallBackend;
beforeAll(async () => {
  backend = await startSmallBackend();
});
afterAll(() => backend?.stop());

async function start(yaml = "", ca?: string): Promise<GatewayProcess> {
  return startGateway(
    `
workers: 1
identity: { trusted_hops: [127.0.1.0/24] }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
${yaml}
`,
    { maxFiles: FILES, ...(ca === undefined ? {} : { ca }) },
  );
}

const portOf = (url: string) => Number(new URL(url).port);

/** Opens connections that send `text` and nothing else. */
async function openMany(port: number, count: number, { from = "127.0.0.2", text = "", tls = false } = {}) {
  const sockets: Socket[] = [];
  for (let n = 0; n < count; n++) {
    const address = { port, host: "127.0.0.1", localAddress: from };
    const socket = tls ? connectTls({ ...address, ca: authority.pem, ALPNProtocols: ["h2"] }) : connect(address);
    socket.on("error", () => {});
    socket.resume();
    sockets.push(socket);
    await Promise.race([once(socket, tls ? "secureConnect" : "connect"), once(socket, "close")]).catch(() => {});
    if (text !== "") socket.write(text);
  }
  return {
    /** Those that the service has not closed. */
    open: () => sockets.filter((socket) => !socket.destroyed && !socket.readableEnded).length,
    close: () => sockets.forEach((socket) => void socket.destroy()),
  };
}

function statusFrom(port: number, localAddress: string, path = "/", token = ""): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = token === "" ? {} : { authorization: `Bearer ${token}` };
    const options = { host: "127.0.0.1", port, path, localAddress, agent: false as const, headers };
    const request = httpRequest(options, (response) => {
      response.resume().on("end", () => resolve(response.statusCode!));
    });
    request.on("error", reject).end();
  });
}

const filesOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

describe("1,100 connections of one client with a limit of 1,024 open files", () => {
  it.each([
    ["idle", ""],
    ["that have sent a part of a request", "GET / HTTP/1.1\r\nHost: a\r\nX-A: "],
    ["that are kept alive after a request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
  ])("%s: the worker runs on, reports, and serves others and new connections of the same client", async (_, text) => {
    const gateway = await start();
    try {
      const [worker] = workersOf(gateway.pid);
      const port = portOf(gateway.url);
      const many = await openMany(port, 1_100, { text });
      await waitFor("closed connections", () => many.open() < 400);
      expect(filesOf(worker!)).toBeLessThan(FILES / 2);
      expect(await statusFrom(port, "127.0.0.3")).toBe(200);
      expect(await statusFrom(port, "127.0.0.2")).toBe(200);
      const page = await fetch(`${gateway.controlUrl}/metrics`, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      const metrics = await page.text();
      expect(metrics).toMatch(/^ratelimit_connections_shed_total\{listener="gateway",reason="(idle|client)"\} [1-9]/m);
      expect(workersOf(gateway.pid)).toEqual([worker]);
      expect(gateway.output().match(/too many connections/g)?.length).toBeLessThan(20);
      many.close();
    } finally {
      await gateway.stop();
    }
  });

  it("over TLS, before and after the handshake: others are served", async () => {
    const gateway = await start(`tls: { cert: ${cert}, key: ${key} }`, authority.pem);
    try {
      const [worker] = workersOf(gateway.pid);
      const port = portOf(gateway.url);
      const silent = await openMany(port, 600);
      const sessions = await openMany(port, 500, { tls: true });
      const address = { port, host: "127.0.0.1", localAddress: "127.0.0.3" };
      const socket = connectTls({ ...address, ca: authority.pem });
      await once(socket, "secureConnect");
      socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
      const [reply] = (await once(socket, "data")) as [Buffer];
      expect(reply.toString()).toMatch(/^HTTP\/1\.1 200/);
      expect(filesOf(worker!)).toBeLessThan(FILES / 2);
      expect(workersOf(gateway.pid)).toEqual([worker]);
      for (const many of [silent, sessions]) many.close();
    } finally {
      await gateway.stop();
    }
  });

  it("on the control listener: operators are served", async () => {
    const gateway = await start();
    try {
      const port = portOf(gateway.controlUrl);
      const many = await openMany(port, 1_100);
      expect(await statusFrom(port, "127.0.0.3", "/health/live")).toBe(200);
      expect(await statusFrom(port, "127.0.0.2", "/admin/ratelimit/status", ADMIN_TOKEN)).toBe(200);
      expect(filesOf(gateway.pid)).toBeLessThan(FILES);
      many.close();
    } finally {
      await gateway.stop();
    }
  });
});

it("a trusted hop may have all connections that the gateway accepts", async () => {
  const gateway = await start();
  try {
    const many = await openMany(portOf(gateway.url), 380, { from: "127.0.1.1" });
    expect(await statusFrom(portOf(gateway.url), "127.0.0.3")).toBe(200);
    expect(many.open()).toBeGreaterThan(370);
    many.close();
  } finally {
    await gateway.stop();
  }
});

it("a worker whose descriptors are all in use reports, and serves again when some are free", async () => {
  const gateway = await start("overload: { memory_mb: 100000 }");
  try {
    const [worker] = workersOf(gateway.pid);
    // Everything that is open, and nothing more.
    const limited = spawn("prlimit", ["--pid", String(worker), `--nofile=${filesOf(worker!)}`]);
    await once(limited, "exit");
    const port = portOf(gateway.url);
    const many = await openMany(port, 50);
    for (let n = 0; n < 3; n++) {
      expect(await statusFrom(portOf(gateway.controlUrl), "127.0.0.1", "/admin/ratelimit/status", ADMIN_TOKEN)).toBe(
        200,
      );
    }
    many.close();
    await once(spawn("prlimit", ["--pid", String(worker), `--nofile=${FILES}`]), "exit");
    await waitFor("a response", async () => (await statusFrom(port, "127.0.0.3")) === 200);
    expect(workersOf(gateway.pid)).toEqual([worker]);
  } finally {
    await gateway.stop();
  }
});
