/** Builds envoyproxy/ratelimit from the Go module proxy into .cache, and runs it. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromRoot } from "../../build/paths.js";
import { freePort } from "../../test/support/ports.js";
import { startProcess } from "../../test/support/processes.js";
import { waitFor } from "../../test/support/wait-for.js";

export const ratelimitVersion = "v1.4.1-0.20260122083618-3fb702589d36";
const PACKAGE = "github.com/envoyproxy/ratelimit/src/service_cmd";
const BUILD_MS = 600_000;

/** The path of the binary; undefined, with a message on stderr, when it cannot be built. */
export function ratelimitBinary(): string | undefined {
  const folder = fromRoot(`.cache/ratelimit/${ratelimitVersion}`);
  const binary = join(folder, "service_cmd");
  if (existsSync(binary)) return binary;
  mkdirSync(folder, { recursive: true });
  try {
    console.error("building envoyproxy/ratelimit …");
    // build/ensure-tools.sh installs Go there when the machine has none.
    const path = `${process.env.PATH}:${fromRoot(".cache/go/go/bin")}`;
    const env = { ...process.env, PATH: path, GOBIN: folder, GOFLAGS: "-buildvcs=false" };
    execFileSync("env", ["go", "install", `${PACKAGE}@${ratelimitVersion}`], { env, stdio: "pipe", timeout: BUILD_MS });
  } catch (error) {
    console.error(`envoyproxy/ratelimit is not measured: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
  return binary;
}

export interface RatelimitService {
  /** host:port of its gRPC listener. */
  readonly address: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** Limits the app `busy` per second, with a limit that is never reached. */
const BUSY = `domain: tollgate
descriptors:
  - { key: app_id, value: busy, rate_limit: { unit: second, requests_per_unit: 1000000 } }
`;

export async function startRatelimit(binary: string, redisPort: number, rules = BUSY): Promise<RatelimitService> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-ratelimit-"));
  mkdirSync(join(dir, "ratelimit/config"), { recursive: true });
  writeFileSync(join(dir, "ratelimit/config/config.yaml"), rules);
  const [grpc, http, debug] = [await freePort(), await freePort(), await freePort()];
  const settings: Record<string, string> = {
    REDIS_SOCKET_TYPE: "tcp",
    REDIS_URL: `127.0.0.1:${redisPort}`,
    USE_STATSD: "false",
    LOG_LEVEL: "error",
    RUNTIME_ROOT: dir,
    RUNTIME_SUBDIRECTORY: "ratelimit",
    RUNTIME_WATCH_ROOT: "false",
    CONFIG_TYPE: "FILE",
    HOST: "127.0.0.1",
    GRPC_HOST: "127.0.0.1",
    DEBUG_HOST: "127.0.0.1",
    PORT: String(http),
    GRPC_PORT: String(grpc),
    DEBUG_PORT: String(debug),
  };
  const words = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const child = startProcess("env", [...words, binary], dir);
  await waitFor("envoyproxy/ratelimit to listen", async () => {
    if (child.hasEnded()) throw new Error(child.output());
    return accepts(grpc);
  });
  return {
    address: `127.0.0.1:${grpc}`,
    pid: child.pid,
    async stop() {
      await child.end("SIGKILL");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
