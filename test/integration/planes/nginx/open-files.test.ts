/** An nginx that may open 1,024 files, and cannot raise that: idle connections of one client do not keep others out. */
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../../../support/gateway-process.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { waitFor } from "../../../support/wait-for.js";

const FILES = 1_024;
let backend: SmallBackend;
let service: GatewayProcess;
let yaml: string;
beforeAll(async () => {
  backend = await startSmallBackend();
  yaml = `
apps: { default: { guaranteed: 1000, burst: 1000 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  service = await startGateway(yaml);
});
afterAll(async () => {
  await service?.stop();
  await backend?.stop();
});

async function withNginx(openFiles: number | undefined, work: (nginx: NginxProcess) => Promise<void>): Promise<void> {
  const services = [service.controlUrl.replace("http://", "")];
  const nginx = await startNginx(yaml, { services, workers: 1, maxFiles: FILES, openFiles });
  try {
    await work(nginx);
  } finally {
    await nginx.stop();
  }
}

/** Connections of one client that send `text` and nothing else. */
async function hold(port: number, count: number, text: string): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let n = 0; n < count; n++) {
    const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" });
    socket.on("error", () => {});
    sockets.push(socket);
    const closed = once(socket, "close");
    await Promise.race([once(socket, "connect"), closed]).catch(() => {});
    socket.write(text);
    // The response, if there is a request.
    if (text !== "") await Promise.race([once(socket, "data"), closed]).catch(() => {});
    socket.resume();
  }
  return sockets;
}

/** The status of a request of another client; 0 if nginx does not answer. */
function statusOf(port: number): Promise<number> {
  return new Promise((resolve) => {
    const options = { host: "127.0.0.1", port, localAddress: "127.0.0.3", agent: false as const, timeout: 5_000 };
    const asked = httpRequest(options, (response) => {
      response.resume().on("end", () => resolve(response.statusCode!));
    });
    asked.on("timeout", () => asked.destroy());
    asked.on("error", () => resolve(0)).end();
  });
}

async function filesOf(nginx: NginxProcess) {
  const { body } = await request(`${nginx.statusUrl}/health/deep`);
  const { status, components } = (await body.json()) as {
    status: string;
    components: { open_files: { status: string; permitted: number; needed: number } };
  };
  return { status, ...{ files: components.open_files } };
}

it.each([
  ["idle", ""],
  ["kept alive after a request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
])("rendered with --open-files, 1,100 connections of one client, %s: others are served", async (_, text) => {
  await withNginx(FILES, async (nginx) => {
    const held = await hold(nginx.port, 1_100, text);
    for (let n = 0; n < 5; n++) expect(await statusOf(nginx.port)).toBe(200);
    const [worker] = nginx.workers();
    expect(readdirSync(`/proc/${worker}/fd`).length).toBeLessThan(FILES);
    expect(nginx.log()).not.toContain("Too many open files");
    expect((await filesOf(nginx)).files).toEqual({ status: "healthy", permitted: FILES, needed: FILES });
    for (const socket of held) socket.destroy();
  });
});

it("rendered without --open-files: log and health say that the system permits too few files", async () => {
  await withNginx(undefined, async (nginx) => {
    await waitFor("a reply of the service", async () => (await filesOf(nginx)).status !== "unhealthy");
    expect(await filesOf(nginx)).toEqual({
      status: "degraded",
      files: { status: "degraded", permitted: FILES, needed: 16_448 },
    });
    expect(nginx.log()).toContain("a worker may open 1024 files, but is configured for 16448");
  });
});
