/** What Envoy's dynamic module returns when Envoy exits: tokens, slots, and the cost of interrupted exchanges. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { connectSocket } from "../../../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../../../support/socket-pods.js";
import { waitFor } from "../../../support/wait-for.js";

const BURST = 40;
const SENT_BYTES = 1024 * 1024;
const QUANTUM = 65_536;

describeEnvoy("an Envoy with the dynamic module that exits", () => {
  let redis: RedisServer;
  let backend: Backend;
  let pod: SocketPod;
  let service: GatewayProcess;
  let envoy: EnvoyProcess | undefined;
  let yaml = "";

  beforeAll(async () => {
    redis = await startRedis();
    pod = await startSocketPod(() => undefined);
    backend = await startBackend((request, response) => {
      if (request.url !== "/endless") response.end();
      else response.write(Buffer.alloc(SENT_BYTES));
    });
    const app = `{ guaranteed: 0.001, burst: ${BURST}, profile: { based_on: iops, bandwidth: 0 } }`;
    yaml = `store: ${redis.url}
log: { level: warn }
lease: { timeout_ms: 10000 }
identity: { trusted_hops: ["127.0.0.0/8"] }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] }, pods: { targets: ["${pod.address}"] } }
routes:
  - { path: /ws/, upstream: pods, connections: { max_per_pod: 2, rate_per_second: 0, max_total: 0, lease_s: 3600 } }
  - { path: /, upstream: backend }
apps:
  default: { guaranteed: 1000, burst: 1000 }
  stopped: ${app}
  quit: ${app}
  restarted: ${app}
  metered: { guaranteed: 1000, burst: 1000, profile: standard }
`;
    service = await startGateway(`node_id: service\nworkers: 1\n${yaml}`);
  });

  afterEach(() => envoy?.stop());

  afterAll(async () => {
    await service?.stop();
    await backend?.stop();
    await pod?.stop();
    await redis?.stop();
  });

  async function start(): Promise<EnvoyProcess> {
    const services = [service.controlUrl.replace("http://", "")];
    envoy = await startEnvoy(yaml, { services, mode: "module", node: "envoy-0" });
    return envoy;
  }

  const ask = async (url: string, app: string) =>
    (await fetch(url, { method: "HEAD", headers: { "x-app-id": app } })).status;

  function hasEnded(pid: number): boolean {
    try {
      process.kill(pid, 0);
      return false;
    } catch {
      return true;
    }
  }

  const ended = (pid: number) => waitFor("Envoy to end", () => hasEnded(pid));

  /** Asks through the service until it is refused. */
  async function admittedElsewhere(app: string): Promise<number> {
    let admitted = 0;
    while ((await ask(service.url, app)) === 200) admitted += 1;
    return admitted;
  }

  const spent = async (app: string) =>
    Number(await redis.command("HGET", `ratelimit:{cluster-01/0}:app:${app}`, "spent"));

  test("after SIGTERM its tokens are free at once: the rest of the burst is admitted elsewhere", async () => {
    const { url, pid, signal } = await start();
    expect(await ask(url, "stopped")).toBe(200);
    const process = pid();
    signal("SIGTERM");
    await ended(process);
    expect(await admittedElsewhere("stopped")).toBe(BURST - 1);
  });

  test("the admin interface's quitquitquit returns them as well", async () => {
    const { url, pid, admin } = await start();
    expect(await ask(url, "quit")).toBe(200);
    const process = pid();
    await admin("/quitquitquit", "POST");
    await ended(process);
    expect(await admittedElsewhere("quit")).toBe(BURST - 1);
  });

  test("the old process of a hot restart returns its tokens when it ends", async () => {
    const started = await start();
    expect(await ask(started.url, "restarted")).toBe(200);
    const old = started.pid();
    await started.reload();
    await ended(old);
    expect(await ask(started.url, "restarted")).toBe(200);
    expect(await admittedElsewhere("restarted")).toBe(BURST - 2);
  });

  test("after SIGTERM its connection slots are free at once, long before their leases end", async () => {
    const { url, pid, signal } = await start();
    const clients = [connectSocket(`${url}/ws/`), connectSocket(`${url}/ws/`)];
    for (const { outcome } of clients) expect((await outcome).open).toBe(true);
    const process = pid();
    signal("SIGTERM");
    await Promise.all(clients.map((client) => client.ended));
    await ended(process);
    const next = [connectSocket(`${service.url}/ws/`), connectSocket(`${service.url}/ws/`)];
    for (const { outcome } of next) expect(await outcome).toMatchObject({ open: true });
    for (const { socket } of next) socket.terminate();
  });

  test("an exchange that the exit interrupts is charged for the bytes that have passed", async () => {
    const { url, pid, signal } = await start();
    const response = await fetch(`${url}/endless`, { headers: { "x-app-id": "metered" } });
    const reader = response.body!.getReader();
    let read = 0;
    while (read < SENT_BYTES) read += (await reader.read()).value?.length ?? 0;
    const process = pid();
    signal("SIGTERM");
    await ended(process);
    await reader.read().catch(() => undefined);
    expect(await spent("metered")).toBe(1 + SENT_BYTES / QUANTUM);
  });

  test("Envoy exits even if no service replies, and resets requests that arrive meanwhile", async () => {
    const { url, pid, signal } = await start();
    expect(await ask(url, "default")).toBe(200);
    const process = pid();
    service.signalAll("SIGSTOP");
    try {
      signal("SIGTERM");
      const outcome = () => ask(url, "default").catch(() => "reset");
      const last = await waitFor("requests not to be admitted", async () => {
        const one = await outcome();
        return one !== 200 && one;
      });
      expect([last, hasEnded(process)]).toEqual(["reset", false]);
      await ended(process);
    } finally {
      service.signalAll("SIGCONT");
    }
  });
});
