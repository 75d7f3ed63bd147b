/** WebSockets over TLS, terminated by nginx: slots work as without TLS. */

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { slotMembers } from "../../../support/slot-keys.js";
import { connectSocket, type SocketClient } from "../../../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../../../support/socket-pods.js";
import { waitFor } from "../../../support/wait-for.js";

const MOST = 3;
const endings: (() => unknown)[] = [];
let redis: RedisServer;
let pod: SocketPod;
let service: GatewayProcess;
let nginx: NginxProcess;
let ca: Buffer;
let start: () => Promise<NginxProcess>;

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-tls-"));
  endings.push(() => rm(folder, { recursive: true, force: true }));
  await promisify(execFile)(
    "openssl",
    [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
      ...["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
      ...["-keyout", "key.pem", "-out", "cert.pem"],
    ],
    { cwd: folder },
  );
  const tls = { certificate: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  ca = await readFile(tls.certificate);
  redis = await startRedis();
  endings.push(() => redis.stop());
  pod = await startSocketPod(() => undefined);
  endings.push(() => pod.stop());
  const yaml = `
store: ${redis.url}
workers: 1
log: { level: warn }
lease: { timeout_ms: 2000 }
timeouts: { shutdown_ms: 300 }
apps: { default: { guaranteed: 100000, burst: 100000 } }
upstreams: { pods: { targets: ["${pod.address}"] } }
routes:
  - { path: /ws/, upstream: pods, connections: { max_per_pod: ${MOST}, rate_per_second: 0, lease_s: 600 } }
`;
  service = await startGateway(yaml);
  endings.push(() => service.stop());
  const services = [service.controlUrl.replace("http://", "")];
  start = () => startNginx(yaml, { services, workers: 2, tls });
});
beforeEach(async () => {
  nginx = await start();
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const clients: SocketClient[] = [];
const slotsTaken = () => slotMembers(redis, "global_conn");
const untilFree = () => waitFor("all slots to be free", async () => pod.live.size === 0 && (await slotsTaken()) === 0);
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.terminate();
  try {
    await untilFree();
  } finally {
    await nginx.stop();
  }
});

async function connect(count: number) {
  const url = nginx.url.replace("http:", "https:");
  const some = Array.from({ length: count }, () => connectSocket(`${url}/ws/`, {}, ca));
  clients.push(...some);
  const outcomes = await Promise.all(some.map(({ outcome }) => outcome));
  return { outcomes, open: some.filter((_, i) => outcomes[i]!.open) };
}

async function echoed({ socket }: SocketClient, message: Buffer): Promise<Buffer> {
  const received = new Promise<Buffer>((resolve) => socket.once("message", (data: Buffer) => resolve(data)));
  socket.send(message);
  return received;
}

it("10 at once: as many as there are slots are admitted; the others are refused like at the gateway, and bytes pass unchanged", async () => {
  const { outcomes, open } = await connect(10);
  expect([open.length, pod.live.size, await slotsTaken()]).toEqual([MOST, MOST, MOST]);
  for (const outcome of outcomes) {
    if (!outcome.open) expect(outcome).toMatchObject({ status: 429, reason: "LIMIT_EXCEEDED" });
  }
  const message = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251));
  for (const client of open) expect((await echoed(client, message)).equals(message)).toBe(true);
  open[0]!.socket.close();
  await waitFor("one slot to be free", async () => (await slotsTaken()) === MOST - 1);
  expect((await connect(3)).open.length).toBe(1);
});

it("a client that rejects the certificate, or does not use TLS, takes no slot", async () => {
  const before = pod.accepted();
  const url = nginx.url.replace("http:", "https:");
  expect(await connectSocket(`${url}/ws/`).outcome).toMatchObject({ open: false, status: 0 });
  expect(await connectSocket(`${nginx.url}/ws/`).outcome).toMatchObject({ open: false, status: 400 });
  expect([pod.accepted() - before, await slotsTaken()]).toEqual([0, 0]);
});

it("a reload closes no connection; slots of killed workers are released at once", async () => {
  const { open } = await connect(MOST - 1);
  await nginx.reload();
  open.push(...(await connect(1)).open);
  for (const client of open) expect(String(await echoed(client, Buffer.from("there?")))).toBe("there?");
  expect(await slotsTaken()).toBe(MOST);
  for (const pid of nginx.workers()) process.kill(pid, "SIGKILL");
  for (const { ended } of open) await ended;
  await untilFree();
});

it("an nginx that quits closes connections after its shutdown timeout, without a close frame, and releases their slots", async () => {
  const { open } = await connect(MOST);
  await nginx.quit();
  for (const { ended } of open) expect((await ended).code).toBe(1006);
  expect(await slotsTaken()).toBe(0);
});
