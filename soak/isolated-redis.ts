/** A Redis in its own network namespace, with its own clock: it can be killed, stopped, cut off, slowed, filled, and its time changed. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { fromRoot } from "../build/paths.js";
import { type ServerProcess, startProcess } from "../test/support/processes.js";
import { waitFor } from "../test/support/wait-for.js";

const PORT = 6379;

export type IsolatedRedis = Awaited<ReturnType<typeof startIsolatedRedis>>;

/** Needs root. `number` keeps several of them apart, from 0 to 63. */
export async function startIsolatedRedis(number: number) {
  const name = `tgsoak${number}`;
  const [outside, inside] = [`${name}a`, `${name}b`];
  const [own, address] = [`10.213.${number}.1`, `10.213.${number}.2`];
  const dir = mkdtempSync(join(tmpdir(), "tollgate-soak-redis-"));
  const clockFile = join(dir, "clock");
  const clock = join(dir, "wall-clock.so");
  execFileSync("gcc", ["-O1", "-shared", "-fPIC", "-o", clock, fromRoot("soak/wall-clock.c")]);
  const ip = (...args: string[]) => execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
  const inNamespace = (...args: string[]) => ip("-n", name, ...args);
  let offsetSeconds = 0;
  setClock(0);
  try {
    ip("netns", "del", name);
  } catch {
    // It is left over only if a run was killed.
  }
  ip("netns", "add", name);
  try {
    ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name);
    ip("addr", "add", `${own}/30`, "dev", outside);
    inNamespace("addr", "add", `${address}/30`, "dev", inside);
    inNamespace("link", "set", "lo", "up");
    inNamespace("link", "set", inside, "up");
    ip("link", "set", outside, "up");
  } catch (error) {
    ip("netns", "del", name);
    throw error;
  }

  /** In place: the file is mapped. */
  function setClock(seconds: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(seconds));
    writeFileSync(clockFile, bytes, { flag: seconds === 0 ? "w" : "r+" });
  }

  function launch(): ServerProcess {
    const ownClock = [`LD_PRELOAD=${clock}`, `WALL_CLOCK_OFFSET=${clockFile}`];
    const durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"];
    const listen = ["--bind", address, "--port", String(PORT), "--protected-mode", "no", "--dir", dir];
    const program = ["env", ...ownClock, "redis-server", ...listen, ...durable];
    return startProcess("ip", ["netns", "exec", name, ...program], dir);
  }

  let server = launch();
  const client = new Redis({
    host: address,
    port: PORT,
    protocol: 2,
    retryStrategy: () => 50,
    commandTimeout: 5_000,
    maxRetriesPerRequest: 0,
  });
  client.on("error", () => {});
  const command = (first: string, ...rest: (string | number)[]) => client.call(first, ...rest);
  const untilReady = () =>
    waitFor("Redis", async () => {
      if (server.hasEnded()) throw new Error(server.output());
      return (await command("PING")) === "PONG";
    });
  await untilReady();

  return {
    url: `redis://${address}:${PORT}`,
    pid: () => server.pid,
    command,
    kill: () => server.end("SIGKILL"),
    async restart() {
      server = launch();
      await untilReady();
    },
    stop: () => server.signal("SIGSTOP"),
    resume: () => server.signal("SIGCONT"),
    cut: () => ip("link", "set", outside, "down"),
    heal: () => ip("link", "set", outside, "up"),
    /** Moves its clock from where it is. */
    stepClock(seconds: number): void {
      offsetSeconds += seconds;
      setClock(offsetSeconds);
    },
    untilReady,
    async end(): Promise<void> {
      client.disconnect();
      await server.end("SIGKILL");
      ip("netns", "del", name);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
