/** Two services with the Node gateway of one version, and nginx or Envoys, each of which can be replaced by another version. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, request } from "undici";
import { envoyBinary, moduleFolder } from "./find-envoy.js";
import { ADMIN_TOKEN, type GatewayProcess, PLANE_TOKEN, startGateway } from "./gateway-process.js";
import { freePort } from "./ports.js";
import { type ServerProcess, startProcess } from "./processes.js";
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
    async function startService(name: string, of: Version): Promise<VersionedService> {
      const service = await startVersionedService(name, of, common);
      endings.push(service.stop);
      return service;
    }
    const services = [await startService("service-a", version), await startService("service-b", version)];
    async function kept<P extends { stop(): Promise<void> }>(starting: Promise<P>): Promise<P> {
      const proxy = await starting;
      endings.push(proxy.stop);
      return proxy;
    }
    const plane = { version, common, services };
    return {
      redis,
      services,
      startService,
      startNginx: (name: string) => kept(startVersionedNginx(name, plane)),
      startEnvoy: (name: string) => kept(startVersionedEnvoy(name, plane)),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

export type VersionedService = Awaited<ReturnType<typeof startVersionedService>>;

async function startVersionedService(plane: string, version: Version, common: string) {
  const ports = { port: await freePort(), controlPort: await freePort() };
  const envoyListen = `127.0.0.1:${await freePort()}`;
  const own = `node_id: ${plane}\nworkers: 1\nenvoy: { listen: "${envoyListen}" }\n`;
  async function start(of: Version): Promise<GatewayProcess> {
    const started = await startGateway(`${own}${common}`, { ports, program: [cli(of)] });
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
    envoyListen,
    end,
    async start(of: Version): Promise<void> {
      running = await start(of);
    },
    stop: () => running.stop(),
  };
}

interface PlaneOptions {
  version: Version;
  common: string;
  services: VersionedService[];
}

const controlOf = ({ controlUrl }: VersionedService) => controlUrl.replace("http://", "");

async function startVersionedNginx(plane: string, { version, common, services }: PlaneOptions) {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-upgrade-"));
  // Workers run as another user than the test.
  chmodSync(dir, 0o755);
  const [port, status] = [await freePort(), await freePort()];
  const config = join(dir, "tollgate.yaml");
  const head = `listen: 127.0.0.1:${port}\ncontrol: { plane_token: ${PLANE_TOKEN} }\n`;
  writeFileSync(config, head + trustingLoopback(common));
  function render(of: Version): void {
    const places = ["--config", config, "--out", dir, "--run", dir, "--status", `127.0.0.1:${status}`];
    const list = services.flatMap((service) => ["--service", controlOf(service)]);
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

/** Times of a hot restart, in seconds. */
const [DRAIN, PARENT] = [1, 3];

async function startVersionedEnvoy(plane: string, { version, common, services }: PlaneOptions) {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-upgrade-"));
  const port = await freePort();
  const config = join(dir, "tollgate.yaml");
  const head = `listen: 127.0.0.1:${port}\ncontrol: { plane_token: ${PLANE_TOKEN} }\n`;
  writeFileSync(config, head + trustingLoopback(common));
  const idFile = join(dir, "base-id");
  const target: Target = { plane, url: `http://127.0.0.1:${port}`, closes: true };
  const running: ServerProcess[] = [];

  /** A process that takes over from the one before. Both read their own files. */
  async function launch(of: Version, called: VersionedService[]): Promise<void> {
    const epoch = running.length;
    const out = join(dir, `epoch-${epoch}`);
    const list = called.flatMap((service) => [
      ...["--service", controlOf(service)],
      ...["--envoy-service", service.envoyListen],
    ]);
    const args = ["render", "envoy", "--config", config, "--out", out, ...list, "--workers", "2", "--node", plane];
    execFileSync(process.execPath, [cli(of), ...args], { stdio: "pipe" });
    const identity =
      epoch === 0
        ? ["--use-dynamic-base-id", "--base-id-path", idFile]
        : ["--base-id", readFileSync(idFile, "utf8").trim(), "--restart-epoch", String(epoch)];
    const times = ["--drain-time-s", String(DRAIN), "--parent-shutdown-time-s", String(PARENT)];
    const envoy = ["-c", join(out, "envoy.yaml"), "--concurrency", "2", "-l", "warning", ...times, ...identity];
    const child = startProcess(envoyBinary(), envoy, dir, { ENVOY_DYNAMIC_MODULES_SEARCH_PATH: moduleFolder() });
    running.push(child);
    await waitFor(`${plane} to serve`, async () => {
      if (child.hasEnded()) throw new Error(child.output());
      const info = JSON.parse(await adminPage(join(out, "admin.sock"), "/server_info")) as ServerInfo;
      return info.state === "LIVE" && info.command_line_options.restart_epoch === epoch;
    });
  }

  await launch(version, services);
  return {
    target,
    /** Replaces the process by a hot restart with another version, which calls other services, and waits for the end of the old one. */
    async replace(to: Version, called: VersionedService[]): Promise<void> {
      const before = running.at(-1)!;
      await launch(to, called);
      await waitFor(`the old process of ${plane} to end`, () => before.hasEnded());
    },
    async stop(): Promise<void> {
      await Promise.all(running.map((child) => child.end("SIGKILL")));
      rmSync(`/dev/shm/envoy_shared_memory_${readFileSync(idFile, "utf8").trim()}0`, { force: true });
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

interface ServerInfo {
  state: string;
  command_line_options: { restart_epoch: number };
}

async function adminPage(socketPath: string, path: string): Promise<string> {
  const client = new Client("http://localhost", { socketPath, headersTimeout: 2_000 });
  try {
    return await (await client.request({ path, method: "GET" })).body.text();
  } finally {
    await client.destroy();
  }
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
