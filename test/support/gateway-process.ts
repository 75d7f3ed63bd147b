/** A gateway in its own process on free ports. Stopped after the test. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, request } from "undici";
import { freePort } from "./ports.js";
import { tollgateProgram } from "./program.js";
import { trustingLoopback } from "./trusted-loopback.js";
import { waitFor } from "./wait-for.js";

const builtCli = new URL("../../dist/cli/main.js", import.meta.url).pathname;

export interface GatewayProcess {
  readonly url: string;
  /** The control listener. */
  readonly controlUrl: string;
  /** The configuration file. A test may replace it. */
  readonly file: string;
  readonly pid: number;
  /** Its stdout and stderr so far. */
  output(): string;
  kill(signal: NodeJS.Signals): void;
  /** Signals the primary and all its workers. */
  signalAll(signal: NodeJS.Signals): void;
  /** Kills the primary and all its workers with SIGKILL. */
  killAll(): void;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
  stop(): Promise<void>;
}

/** The worker processes of a gateway. The TypeScript loader is another child process. */
export function workersOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return children.split(" ").filter(isWorker).map(Number);
}

function isWorker(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("worker-main");
  } catch {
    // It has just ended, or the list is empty.
    return false;
  }
}

export interface GatewayProcessOptions {
  /** Further content of `control: { … }`. */
  control?: string;
  env?: Record<string, string>;
  /** The ports of a gateway that this one replaces; free ones by default. */
  ports?: { port: number; controlPort: number };
  /** The CA of the gateway's certificate, if `yaml` has `tls`. */
  ca?: string;
  /** The certificate of the test, if the gateway requires one. */
  client?: { cert: string; key: string };
  /** The control listener has TLS. */
  controlTls?: boolean;
  /** Limit of open files of each process. */
  maxFiles?: number;
  /** Runs what `make build` built, also if it is not up to date: for measurements. */
  built?: boolean;
  /** Arguments of Node that start another version's command line. */
  program?: readonly string[];
}

/** Valid only in tests. */
export const ADMIN_TOKEN = "admin-token-of-the-tests";
export const PLANE_TOKEN = "plane-token-of-the-tests";

/** `yaml` must not contain listen and control. */
export async function startGateway(yaml: string, options: GatewayProcessOptions = {}): Promise<GatewayProcess> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-gateway-"));
  const { port, controlPort } = options.ports ?? { port: await freePort(), controlPort: await freePort() };
  const file = join(dir, "tollgate.yaml");
  const control = options.control ?? `admin_token: ${ADMIN_TOKEN}, plane_token: ${PLANE_TOKEN}`;
  const head = `listen: 127.0.0.1:${port}\ncontrol: { listen: "127.0.0.1:${controlPort}", ${control} }\n`;
  writeFileSync(file, head + trustingLoopback(yaml));
  const program = options.program ?? (options.built ? [builtCli] : tollgateProgram());
  const command = [process.execPath, ...program, "serve", "--config", file];
  const limited = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', String(options.maxFiles), ...command];
  const [first, ...rest] = options.maxFiles === undefined ? command : limited;
  const child = spawn(first!, rest, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...options.env },
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (output += data));
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const onExit = () => child.kill("SIGKILL");
  process.once("exit", onExit);
  const url = `${options.ca === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  const agent = new Agent({ connect: { ca: options.ca, ...options.client } });
  function signalAll(signal: NodeJS.Signals): void {
    // The primary first, so that it does not replace a killed worker.
    const all = [child.pid ?? 0, ...workersOf(child.pid ?? 0)];
    for (const pid of all) {
      try {
        process.kill(pid, signal);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
  }
  const gateway: GatewayProcess = {
    url,
    controlUrl: `${options.controlTls ? "https" : "http"}://127.0.0.1:${controlPort}`,
    file,
    pid: child.pid ?? 0,
    output: () => output,
    kill: (signal) => child.kill(signal),
    signalAll,
    killAll: () => signalAll("SIGKILL"),
    ended,
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await ended;
      clearTimeout(timer);
      process.off("exit", onExit);
      rmSync(dir, { recursive: true, force: true });
    },
  };
  try {
    // Any status will do: the backend may not exist.
    await waitFor("the gateway to listen", async () => {
      if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}: ${output}`);
      const { body } = await request(`${url}/`, { headersTimeout: 2_000, dispatcher: agent });
      await body.dump();
      return true;
    });
  } catch (error) {
    child.kill("SIGKILL");
    throw new Error(`${String(error)}\n${output}`);
  }
  await agent.destroy();
  return gateway;
}

export interface SmallBackend {
  readonly target: string;
  requests(): number;
  stop(): Promise<void>;
}

/** Responds "ok" to every request, or as many bytes as `?bytes=` in the path says; after the body, if its length is declared. */
export async function startSmallBackend(): Promise<SmallBackend> {
  let count = 0;
  const server: Server = createServer((incoming, response) => {
    count++;
    const query = new URLSearchParams(incoming.url?.split("?")[1]);
    const bytes = query.get("bytes");
    const respond = () => {
      if (query.has("cost")) response.setHeader("X-Cost", query.getAll("cost"));
      if (query.has("chunked")) response.flushHeaders();
      response.end(bytes === null ? "ok" : Buffer.alloc(Number(bytes)));
    };
    incoming.resume();
    if (incoming.headers["content-length"] === undefined && !query.has("chunked")) respond();
    else incoming.on("end", respond);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    target: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: () => count,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
