/** Two services with the Node gateway and two nginx of one version, each of which can be replaced by another version. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { ADMIN_TOKEN, type GatewayProcess, PLANE_TOKEN, startGateway } from "./gateway-process.js";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { startRedis } from "./redis-server.js";
import type { Target } from "./rotating-load.js";
import { trustingLoopback } from "./trusted-loopback.js";
import { waitFor } from "./wait-for.js";

/** A version of Tollgate: its folder, with a build in dist. */
export interface Version {
  readonly folder: string;
}

const cli = ({ folder }: Version) => join(folder, "dist/cli/main.js");

/** The name of its function library in Redis. */
export function libraryOf({ folder }: Version): string {
  const text = readFileSync(join(folder, "dist/lua/redis/tollgate.lua"), "utf8");
  return /^#!lua name=(\w+)/.exec(text)![1]!;
}

export interface UpgradeWorldOptions {
  version: Version;
  /** The configuration without node, store, listeners and control. */
  yaml: string;
}

export type UpgradeWorld = Awaited<ReturnType<typeof startUpgradeWorld>>;

export async function startUpgradeWorld({ version, yaml }: UpgradeWorldOptions) {
  const endings: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const common = `store: ${redis.url}\n${yaml}`;
    const services = [];
    for (const name of ["service-a", "service-b"]) {
      const service = await startVersionedService(name, version, common);
      endings.push(service.stop);
      services.push(service);
    }
    const control = services.map(({ controlUrl }) => controlUrl.replace("http://", ""));
    const proxies = [];
    for (const name of ["nginx-a", "nginx-b"]) {
      const nginx = await startVersionedNginx(name, version, common, control);
      endings.push(nginx.stop);
      proxies.push(nginx);
    }
    return { redis, services, proxies, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startVersionedService(plane: string, version: Version, common: string) {
  const ports = { port: await freePort(), controlPort: await freePort() };
  async function start(of: Version): Promise<GatewayProcess> {
    const started = await startGateway(`node_id: ${plane}\nworkers: 1\n${common}`, { ports, program: [cli(of)] });
    await pinLevel(started.controlUrl);
    return started;
  }
  let running: GatewayProcess = await start(version);
  async function end(): Promise<void> {
    running.kill("SIGTERM");
    const code = await running.ended;
    if (code !== 0) throw new Error(`${plane} ended with ${code}: ${running.output()}`);
  }
  const target: Target = { plane, url: running.url, closes: false };
  return {
    target,
    controlUrl: running.controlUrl,
    end,
    async start(of: Version): Promise<void> {
      running = await start(of);
    },
    stop: () => running.stop(),
  };
}

async function startVersionedNginx(plane: string, version: Version, common: string, services: string[]) {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-upgrade-"));
  // Workers run as another user than the test.
  chmodSync(dir, 0o755);
  const [port, status] = [await freePort(), await freePort()];
  const config = join(dir, "tollgate.yaml");
  const head = `listen: 127.0.0.1:${port}\ncontrol: { plane_token: ${PLANE_TOKEN} }\n`;
  writeFileSync(config, head + trustingLoopback(common));
  function render(of: Version): void {
    const places = ["--config", config, "--out", dir, "--run", dir, "--status", `127.0.0.1:${status}`];
    const list = services.flatMap((service) => ["--service", service]);
    const args = ["render", "nginx", ...places, ...list, "--workers", "1", "--node", plane];
    execFileSync(process.execPath, [cli(of), ...args], { stdio: "pipe" });
  }
  render(version);
  const server = startProcess("nginx", ["-p", dir, "-c", join(dir, "nginx.conf"), "-g", "daemon off;"], dir);
  const workers = () => readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, "utf8").trim().split(" ");
  const target: Target = { plane, url: `http://127.0.0.1:${port}`, closes: true };
  await waitFor(`${plane} to listen`, async () => {
    if (server.hasEnded()) throw new Error(server.output());
    const { body } = await request(target.url, { headersTimeout: 2_000, reset: true });
    await body.dump();
    return true;
  });
  return {
    target,
    /** Renders the configuration with another version, reloads, and waits until only new workers are left. */
    async upgrade(to: Version): Promise<void> {
      const before = workers();
      render(to);
      server.signal("SIGHUP");
      await waitFor("new workers of nginx", () => workers().every((pid) => !before.includes(pid)));
    },
    async quit(): Promise<void> {
      server.signal("SIGQUIT");
      await waitFor(`${plane} to end`, () => server.hasEnded());
    },
    async stop(): Promise<void> {
      await server.end("SIGKILL");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The service and its gateway wait for the store however slow a busy machine makes it, up to `lease.timeout_ms`. */
async function pinLevel(controlUrl: string): Promise<void> {
  const { statusCode, body } = await request(`${controlUrl}/admin/ratelimit/degradation`, {
    method: "POST",
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ level: 0, duration_seconds: 86_400 }),
  });
  const reply = await body.text();
  if (statusCode !== 200) throw new Error(`the level is not pinned: ${statusCode} ${reply}`);
}

/** Asks the admin API of a service. */
export async function askAdmin<T>(controlUrl: string, path: string): Promise<T> {
  const { body } = await request(`${controlUrl}${path}`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  return (await body.json()) as T;
}
