/** Graphite's carbon and Etsy's StatsD on free ports. Installed by `build/ensure-receivers.sh`. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromRoot } from "../../build/paths.js";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

export interface Graphite {
  readonly port: number;
  /** All stored values of a metric, the oldest first. */
  values(name: string): number[];
  stop(): Promise<void>;
}

const listens = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => socket.end(() => resolve(true)));
    socket.once("error", () => resolve(false));
  });

export async function startGraphite(): Promise<Graphite> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-graphite-"));
  const [port, pickle, query] = [await freePort(), await freePort(), await freePort()];
  const folders = ["STORAGE", "CONF", "LOG", "PID"].map((name) => `${name}_DIR = ${dir}`).join("\n");
  const local = ["LINE_RECEIVER", "PICKLE_RECEIVER", "CACHE_QUERY"].map((name) => `${name}_INTERFACE = 127.0.0.1`);
  writeFileSync(
    join(dir, "carbon.conf"),
    `[cache]
USER =
${folders}
LOCAL_DATA_DIR = ${dir}/whisper
${local.join("\n")}
LINE_RECEIVER_PORT = ${port}
PICKLE_RECEIVER_PORT = ${pickle}
CACHE_QUERY_PORT = ${query}
MAX_CREATES_PER_MINUTE = inf
MAX_UPDATES_PER_SECOND = inf
ENABLE_LOGROTATION = False
`,
  );
  writeFileSync(join(dir, "storage-schemas.conf"), "[all]\npattern = .*\nretentions = 1s:1h\n");
  const config = `--config=${join(dir, "carbon.conf")}`;
  const server = startProcess("carbon-cache", [config, "--nodaemon", "--debug", "start"], dir);
  async function stop(): Promise<void> {
    await server.end("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  }
  await waitFor("carbon to listen (is it installed?)", async () => {
    if (server.hasEnded()) throw new Error(server.output());
    return listens(port);
  });
  return {
    port,
    values(name) {
      const file = join(dir, "whisper", `${name.replaceAll(".", "/")}.wsp`);
      if (!existsSync(file)) return [];
      const from = Math.floor(Date.now() / 1000) - 3_500;
      const reply = JSON.parse(execFileSync("whisper-fetch", ["--json", `--from=${from}`, file], { encoding: "utf8" }));
      return (reply as { values: (number | null)[] }).values.filter((value) => value !== null);
    },
    stop,
  };
}

export interface Statsd {
  readonly port: number;
  stop(): Promise<void>;
}

/** Flushes to Graphite every two seconds. */
export async function startStatsd(graphite: Graphite): Promise<Statsd> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-statsd-"));
  const [port, management] = [await freePort(), await freePort()];
  const config = {
    ...{ address: "127.0.0.1", port, mgmt_address: "127.0.0.1", mgmt_port: management, flushInterval: 2_000 },
    ...{ backends: ["./backends/graphite"], graphiteHost: "127.0.0.1", graphitePort: graphite.port },
    graphite: { legacyNamespace: false },
  };
  const file = join(dir, "config.js");
  writeFileSync(file, JSON.stringify(config));
  const program = fromRoot(".cache/statsd-0.9.0/node_modules/statsd/stats.js");
  const server = startProcess(process.execPath, [program, file], dir);
  await waitFor("statsd to listen (is it installed?)", async () => {
    if (server.hasEnded()) throw new Error(server.output());
    return listens(management);
  });
  return {
    port,
    async stop() {
      await server.end("SIGKILL");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
