/** A real nginx with Tollgate, configured by `tollgate render`, on free ports. Stopped after the test. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { nginxBundle } from "../../build/lua-bundle.js";
import { readConfig } from "../../src/config/load.js";
import { describeProblem } from "../../src/config/problem.js";
import type { Config } from "../../src/config/schema.js";
import { renderNginx } from "../../src/render/nginx/nginx.js";
import type { RenderOptions } from "../../src/render/nginx/options.js";
import { PLANE_TOKEN } from "./gateway-process.js";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { trustingLoopback } from "./trusted-loopback.js";
import { waitFor } from "./wait-for.js";

let bundle: string | undefined;

/** Builds the Lua once. This blocks the process for seconds, so call it before starting servers. */
export function nginxPlane(): string {
  bundle ??= nginxBundle();
  return bundle;
}

export interface NginxProcess {
  readonly url: string;
  /** Metrics and health. */
  readonly statusUrl: string;
  readonly port: number;
  readonly dir: string;
  /** The master process. */
  readonly pid: number;
  workers(): number[];
  /** The content of its error log. */
  log(): string;
  signal(name: NodeJS.Signals): void;
  /** Renders another configuration into the same files and reloads nginx. Resolves when new workers run. */
  reload(yaml?: string): Promise<void>;
  /** Kills the master and the workers with SIGKILL. */
  killAll(): Promise<void>;
  /** Sends QUIT, which returns all tokens. */
  quit(): Promise<void>;
  stop(): Promise<void>;
}

export interface StartNginxOptions extends Partial<Omit<RenderOptions, "path" | "bundle" | "runDir" | "status">> {
  /** Further lines of the http section. */
  http?: string;
  /** Further content of `control: { … }`. */
  control?: string;
  /** The hard limit of open files, which nginx cannot raise. */
  maxFiles?: number;
  /** Edits a rendered file before nginx reads it. */
  edit?: (text: string, name: string) => string;
}

/** @param control further content of `control: { … }` */
export function parseYaml(yaml: string, port: number, control = ""): Config {
  const head = `listen: 127.0.0.1:${port}\ncontrol: { plane_token: ${PLANE_TOKEN}, ${control} }\n`;
  const { config, problems } = readConfig(head + trustingLoopback(yaml), {});
  if (config === undefined) throw new Error(problems.map(describeProblem).join("\n"));
  return config;
}

/** `yaml` without listen and control. */
export async function startNginx(yaml: string, options: StartNginxOptions = {}): Promise<NginxProcess> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-nginx-"));
  // Workers run as another user than the test.
  chmodSync(dir, 0o755);
  const [port, statusPort] = [await freePort(), await freePort()];
  const text = nginxPlane();
  function write(source: string): void {
    const { files } = renderNginx(parseYaml(source, port, options.control), {
      services: [],
      flavour: "debian",
      includeOnly: false,
      workers: 2,
      ...options,
      path: dir,
      runDir: dir,
      bundle: text,
      status: `127.0.0.1:${statusPort}`,
    });
    for (const file of files) {
      const more = file.name === "nginx.conf" ? withLines(file.text, options.http ?? "") : file.text;
      writeFileSync(join(dir, file.name), options.edit?.(more, file.name) ?? more);
    }
  }
  write(yaml);
  const limited =
    options.maxFiles === undefined
      ? []
      : ["prlimit", `--nofile=${options.maxFiles}:${options.maxFiles}`, "setpriv", "--bounding-set=-sys_resource"];
  const [program, ...args] = [...limited, "nginx", "-p", dir, "-c", join(dir, "nginx.conf"), "-g", "daemon off;"];
  const child = startProcess(program!, args, dir);
  const errorLog = join(dir, "error.log");
  const log = () => (existsSync(errorLog) ? readFileSync(errorLog, "utf8") : "");
  const workers = () => childrenOf(child.pid);
  async function end(): Promise<void> {
    const all = child.hasEnded() ? [] : workers();
    await child.end("SIGKILL");
    // Without the master, the workers are neither replaced nor stopped.
    for (const pid of all) kill(pid);
  }
  try {
    await waitFor("nginx to listen", async () => {
      if (child.hasEnded()) throw new Error(child.output());
      const { body } = await request(`http://127.0.0.1:${port}/`, { headersTimeout: 2_000 });
      await body.dump();
      return true;
    });
  } catch (error) {
    await end();
    throw new Error(`${String(error)}\n${child.output()}\n${log()}`);
  }
  return {
    url: `http://127.0.0.1:${port}`,
    statusUrl: `http://127.0.0.1:${statusPort}`,
    port,
    dir,
    pid: child.pid,
    workers,
    log,
    signal: (name) => child.signal(name),
    async reload(source = yaml) {
      const before = workers();
      write(source);
      child.signal("SIGHUP");
      await waitFor("new workers", () => workers().some((pid) => !before.includes(pid)));
    },
    killAll: end,
    async quit() {
      child.signal("SIGQUIT");
      await waitFor("nginx to end", () => child.hasEnded());
    },
    async stop() {
      await end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function withLines(conf: string, lines: string): string {
  return conf.replace("\nhttp {\n", () => `\nhttp {\n${lines}\n`);
}

/** The child processes of the master are its workers. */
function childrenOf(master: number): number[] {
  const children = readFileSync(`/proc/${master}/task/${master}/children`, "utf8").trim();
  return children === "" ? [] : children.split(" ").map(Number);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
