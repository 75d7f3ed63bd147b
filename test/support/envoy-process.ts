/** A real Envoy with the plane in it, rendered from a config, on free ports; gone when the test is over. */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { envoyBundle } from "../../build/bundles.js";
import { renderEnvoy } from "../../src/render/envoy/envoy.js";
import { DEFAULT_CONNECTIONS, type EnvoyRenderOptions } from "../../src/render/envoy/options.js";
import { envoyBinary } from "./find-envoy.js";
import { parseYaml } from "./nginx-process.js";
import { freePort } from "./ports.js";
import { type ServerProcess, startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

let bundle: string | undefined;

/** As `nginxPlane`. */
export function envoyPlane(): string {
  bundle ??= envoyBundle();
  return bundle;
}

export interface EnvoyProcess {
  readonly url: string;
  readonly port: number;
  /** Envoy's own pages. */
  readonly adminUrl: string;
  readonly dir: string;
  /** Of the process that is in charge; a reload and a restart change it. */
  pid(): number;
  /** What it wrote to its log. */
  log(): string;
  signal(name: NodeJS.Signals): void;
  /**
   * Renders another config into the same place, with another script in any case. A `dynamic` Envoy takes it over as it runs;
   * else a new one takes over from the old one, which drains.
   */
  reload(yaml?: string): Promise<void>;
  /** All of it at once, with -9; a supervisor does not bring it back. */
  killAll(): Promise<void>;
  /** Starts anew after killAll, on the same ports. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface StartEnvoyOptions extends Partial<Omit<EnvoyRenderOptions, "path" | "bundle" | "admin">> {
  /** Is started again whenever it dies, as an init system would. */
  supervised?: boolean;
  /** Changes the text of a rendered file before Envoy reads it. */
  edit?: (text: string, name: string) => string;
}

/** Old processes of a hot restart are gone after this. */
const DRAIN_S = 1;
const PARENT_S = 3;

/** `yaml` without listen and control. */
export async function startEnvoy(yaml: string, options: StartEnvoyOptions = {}): Promise<EnvoyProcess> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-envoy-"));
  const [port, adminPort] = [await freePort(), await freePort()];
  const { supervised = false, edit, ...rendering } = options;
  const workers = options.workers ?? 2;
  const logFile = join(dir, "envoy.log");
  const url = `http://127.0.0.1:${port}`;
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  const log = () => (existsSync(logFile) ? readFileSync(logFile, "utf8") : "") + notes;
  /** Newest last; those before it drain. */
  let running: ServerProcess[] = [];
  let baseId = "";
  let epoch = 0;
  let ending = false;
  let restarting: Promise<void> = Promise.resolve();
  let notes = "";
  let writes = 0;

  function write(source: string): void {
    const text = rendering.mode === "rls" ? "" : envoyPlane();
    writes += 1;
    const { files } = renderEnvoy(parseYaml(source, port), {
      services: [],
      envoyServices: [],
      mode: "lua",
      maxConnections: DEFAULT_CONNECTIONS,
      ...rendering,
      workers,
      path: dir,
      bundle: `${text}\n-- ${writes}\n`,
      admin: `127.0.0.1:${adminPort}`,
    });
    for (const { name, text } of files) {
      const next = join(dir, `${name}.next`);
      writeFileSync(next, edit?.(text, name) ?? text);
      // In one step, by which an Envoy that watches them sees that they have changed.
      renameSync(next, join(dir, name));
    }
  }

  /** Routes tell the version of the script that they come with; whatever may have changed besides was written before them. */
  async function taken(): Promise<void> {
    const version = /script: ("\w+")/.exec(readFileSync(join(dir, "routes.yaml"), "utf8"))![1]!;
    await waitFor("Envoy to take the routes", async () => {
      const { body } = await request(`${adminUrl}/config_dump?resource=dynamic_route_configs`);
      return (await body.text()).includes(version);
    });
  }

  function launch(): ServerProcess {
    const idFile = join(dir, "base-id");
    const identity =
      epoch === 0
        ? ["--use-dynamic-base-id", "--base-id-path", idFile]
        : ["--base-id", baseId, "--restart-epoch", String(epoch)];
    const args = ["-c", join(dir, "envoy.yaml"), "--concurrency", String(workers), "-l", "warning"];
    const times = ["--drain-time-s", String(DRAIN_S), "--parent-shutdown-time-s", String(PARENT_S)];
    return startProcess(envoyBinary(), [...args, "--log-path", logFile, ...times, ...identity], dir);
  }

  /** Until the newest one serves, which it says itself: the port may still be an older one's. */
  async function serving(child: ServerProcess): Promise<void> {
    try {
      await waitFor(
        "Envoy to serve",
        async () => {
          if (child.hasEnded()) return "ended";
          const { statusCode, body } = await request(`${adminUrl}/server_info`, { headersTimeout: 2_000, reset: true });
          const info = (await body.json()) as { state: string; command_line_options: { restart_epoch: number } };
          return statusCode === 200 && info.state === "LIVE" && info.command_line_options.restart_epoch === epoch;
        },
        { withinMs: 30_000 },
      );
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

  /** Somebody may kill it again before it serves. */
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

  /** Who is killed leaves it behind. */
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
    adminUrl,
    dir,
    pid: () => running.at(-1)?.pid ?? -1,
    log,
    signal: (name) => running.at(-1)?.signal(name),
    async reload(source = yaml) {
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
