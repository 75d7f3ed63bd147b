/** A real Envoy with the Tollgate module, configured by `tollgate render`, on free ports. Stopped after the test. */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "undici";
import { envoyBundle } from "../../build/lua-bundle.js";
import { renderEnvoy } from "../../src/render/envoy/envoy.js";
import { ADMIN_SOCKET, DEFAULT_CONNECTIONS, type EnvoyRenderOptions } from "../../src/render/envoy/options.js";
import { envoyBinary, moduleFolder } from "./find-envoy.js";
import { parseYaml } from "./nginx-process.js";
import { freePort } from "./ports.js";
import { type ServerProcess, startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

let bundle: string | undefined;

/** Like `nginxPlane`. */
export function envoyPlane(): string {
  bundle ??= envoyBundle();
  return bundle;
}

export interface EnvoyProcess {
  readonly url: string;
  readonly port: number;
  /** A page of Envoy's admin interface, which is on a Unix socket. */
  admin(path: string, method?: "GET" | "POST"): Promise<string>;
  readonly dir: string;
  /** Of the serving process. A reload or a restart changes it. */
  pid(): number;
  /** The content of its log. */
  log(): string;
  signal(name: NodeJS.Signals): void;
  /**
   * Renders another configuration into the same files, always with a new script version. A `dynamic` Envoy applies it
   * while it runs; otherwise a new process, with another number of workers if given, replaces the old one, which drains.
   */
  reload(yaml?: string, workers?: number): Promise<void>;
  /** Kills all processes with SIGKILL; a supervisor does not restart them. */
  killAll(): Promise<void>;
  /** Starts again after killAll, on the same ports. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface StartEnvoyOptions extends Partial<Omit<EnvoyRenderOptions, "path" | "bundle" | "admin">> {
  /** Restart it whenever it dies, like an init system. */
  supervised?: boolean;
  /** Further content of `control: { … }`. */
  control?: string;
  /** Default: that of `findEnvoy`. */
  binary?: string | undefined;
  /** Edits a rendered file before Envoy reads it. */
  edit?: (text: string, name: string) => string;
}

interface Info {
  state: string;
  command_line_options: { restart_epoch: number };
}

/** How long old processes of a hot restart run. */
const DRAIN_S = 1;
const PARENT_S = 3;

/** `yaml` without listen and control. */
export async function startEnvoy(yaml: string, options: StartEnvoyOptions = {}): Promise<EnvoyProcess> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-envoy-"));
  const port = await freePort();
  const { supervised = false, edit, control, binary = envoyBinary(), ...rendering } = options;
  let workers = options.workers ?? 2;
  const mode = options.mode ?? "module";
  const logFile = join(dir, "envoy.log");
  const url = `http://127.0.0.1:${port}`;
  const log = () => (existsSync(logFile) ? readFileSync(logFile, "utf8") : "") + notes;
  /** The last one serves; the others drain. */
  let running: ServerProcess[] = [];
  let baseId = "";
  let epoch = 0;
  let ending = false;
  let restarting: Promise<void> = Promise.resolve();
  let notes = "";
  let writes = 0;

  /** How often the module has loaded a script. */
  const loads = () => log().split("tollgate: loaded ").length - 1;
  let loadsBefore = 0;

  function write(source: string): void {
    loadsBefore = loads();
    const text = mode === "rls" ? "" : envoyPlane();
    writes += 1;
    const { files } = renderEnvoy(parseYaml(source, port, control), {
      services: [],
      envoyServices: [],
      mode,
      maxConnections: DEFAULT_CONNECTIONS,
      dynamic: false,
      ...rendering,
      workers,
      path: dir,
      bundle: `${text}\n-- ${writes}\n`,
    });
    for (const { name, text } of files) {
      const next = join(dir, `${name}.next`);
      writeFileSync(next, edit?.(text, name) ?? text);
      // Replaced in one step: an Envoy that watches the file reacts to the rename.
      renameSync(next, join(dir, name));
    }
  }

  /** On a new connection, because after a hot restart another process listens. */
  async function admin(path: string, method: "GET" | "POST" = "GET"): Promise<string> {
    const client = new Client("http://localhost", { socketPath: join(dir, ADMIN_SOCKET), headersTimeout: 2_000 });
    try {
      const { body } = await client.request({ path, method });
      return await body.text();
    } finally {
      await client.destroy();
    }
  }

  /** Waits until the running Envoy has the new script, routes and clusters. */
  async function taken(): Promise<void> {
    if (mode === "module") await waitFor("the module to load the script", () => loads() > loadsBefore);
    const resources = { "routes.yaml": "dynamic_route_configs", "clusters.yaml": "dynamic_active_clusters" };
    for (const [name, resource] of Object.entries(resources)) {
      const version = /version_info: (\S+)/.exec(readFileSync(join(dir, name), "utf8"))![1]!;
      await waitFor(`Envoy to take ${name}`, async () => {
        return (await admin(`/config_dump?resource=${resource}`)).includes(version);
      });
    }
  }

  function launch(): ServerProcess {
    const idFile = join(dir, "base-id");
    const identity =
      epoch === 0
        ? ["--use-dynamic-base-id", "--base-id-path", idFile]
        : ["--base-id", baseId, "--restart-epoch", String(epoch)];
    const args = ["-c", join(dir, "envoy.yaml"), "--concurrency", String(workers), "-l", "warning"];
    const times = ["--drain-time-s", String(DRAIN_S), "--parent-shutdown-time-s", String(PARENT_S)];
    const modules = { ENVOY_DYNAMIC_MODULES_SEARCH_PATH: moduleFolder() };
    const levels = ["--component-log-level", "dynamic_modules:info", "--file-flush-interval-msec", "50"];
    return startProcess(binary, [...args, ...levels, "--log-path", logFile, ...times, ...identity], dir, modules);
  }

  /** Waits until the newest process reports that it serves. The port may still belong to an older one. */
  async function serving(child: ServerProcess): Promise<void> {
    try {
      await waitFor("Envoy to serve", async () => {
        if (child.hasEnded()) return "ended";
        const info: Info = JSON.parse(await admin("/server_info"));
        return info.state === "LIVE" && info.command_line_options.restart_epoch === epoch;
      });
      if (child.hasEnded()) throw new Error("Envoy ended");
    } catch (error) {
      await child.end("SIGKILL");
      throw new Error(`${String(error)}\n${child.output()}\n${log()}`);
    }
    if (epoch === 0) baseId = readFileSync(join(dir, "base-id"), "utf8").trim();
    if (supervised) watch(child);
  }

  async function boot(): Promise<void> {
    forgetShared();
    epoch = 0;
    const child = launch();
    running = [child];
    await serving(child);
  }

  function watch(child: ServerProcess): void {
    const timer = setInterval(() => {
      if (ending || running.at(-1) !== child) return clearInterval(timer);
      if (!child.hasEnded()) return;
      clearInterval(timer);
      restarting = restart();
    }, 10);
    timer.unref();
  }

  /** It may be killed again before it serves. */
  async function restart(): Promise<void> {
    for (let attempt = 1; attempt <= 5 && !ending; attempt++) {
      try {
        return await boot();
      } catch (error) {
        notes += `start ${attempt} failed: ${String(error)}\n`;
      }
    }
  }

  async function end(): Promise<void> {
    ending = true;
    const killAll = () => Promise.all(running.map((child) => child.end("SIGKILL")));
    await killAll();
    await restarting;
    await killAll();
    running = [];
    forgetShared();
  }

  /** A killed process does not remove its shared memory. */
  function forgetShared(): void {
    if (baseId !== "") rmSync(`/dev/shm/envoy_shared_memory_${baseId}0`, { force: true });
  }

  write(yaml);
  try {
    await boot();
  } catch (error) {
    await end();
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  return {
    url,
    port,
    admin,
    dir,
    pid: () => running.at(-1)?.pid ?? -1,
    log,
    signal: (name) => running.at(-1)?.signal(name),
    async reload(source = yaml, count = workers) {
      workers = count;
      write(source);
      if (options.dynamic === true) return taken();
      epoch += 1;
      const child = launch();
      running = [...running.filter((each) => !each.hasEnded()), child];
      await serving(child);
    },
    killAll: end,
    async start() {
      ending = false;
      await boot();
    },
    async stop() {
      await end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
