/** A real redis-server on a free loopback port, in its own directory. Stopped after the test. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis, type RedisOptions } from "ioredis";
import { freePort } from "./ports.js";
import { type ServerProcess, startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

export interface StartRedisOptions {
  args?: string[];
  port?: number;
  dir?: string;
  /** For `command`, if the server requires a password or TLS. */
  client?: Omit<RedisOptions, "replyMapping">;
  /** False if the server will not respond soon, for example while it loads data. */
  waitUntilReady?: boolean;
  /** The content of a configuration file, for sentinels. */
  configuration?: string;
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  readonly pid: number;
  /** Sends a command on a separate connection, which stays open. */
  command(name: string, ...args: (string | number)[]): Promise<unknown>;
  /** SIGSTOP: the server keeps its connections and does not respond. */
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
  /** Starts again with the same port, directory and arguments, after a kill if it still runs. */
  restart(options?: { waitUntilReady?: boolean; args?: string[] }): Promise<void>;
  stop(): Promise<void>;
}

export async function startRedis(options: StartRedisOptions = {}): Promise<RedisServer> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "tollgate-redis-")));
  const file = options.configuration === undefined ? [] : [join(dir, "redis.conf")];
  if (file[0] !== undefined) await writeFile(file[0], options.configuration ?? "");
  let args = options.args ?? [];
  const port = options.port ?? (await freePort());
  const started = startProcess("redis-server", [...file, ...redisArguments(port, dir, args)], dir);
  try {
    return await serve(started);
  } catch (error) {
    await started.end("SIGKILL");
    throw error;
  }

  async function serve(first: ServerProcess): Promise<RedisServer> {
    let server = first;
    const client = new Redis({
      ...options.client,
      host: "127.0.0.1",
      port,
      lazyConnect: true,
      protocol: 2,
      maxRetriesPerRequest: 0,
      enableReadyCheck: false,
      retryStrategy: () => 20,
      disconnectTimeout: 100,
      // A server that a failed test left stopped must not block the next test.
      commandTimeout: 10_000,
    });
    client.on("error", () => undefined);
    const command = (name: string, ...rest: (string | number)[]) => client.call(name, ...rest);

    async function untilReady(): Promise<void> {
      await waitFor(`redis-server on port ${port}`, async () => {
        if (server.hasEnded()) throw new Error(server.output());
        return (await command("PING")) === "PONG";
      }).catch((error: unknown) => {
        client.disconnect();
        throw error;
      });
    }

    if (options.waitUntilReady !== false) await untilReady();
    return {
      url: `redis://127.0.0.1:${port}`,
      port,
      dir,
      get pid() {
        return server.pid;
      },
      command,
      pause: () => server.signal("SIGSTOP"),
      resume: () => server.signal("SIGCONT"),
      kill: () => server.end("SIGKILL"),
      async restart(again = {}) {
        await server.end("SIGKILL");
        args = again.args ?? args;
        server = startProcess("redis-server", [...file, ...redisArguments(port, dir, args)], dir);
        if (again.waitUntilReady !== false) await untilReady();
      },
      async stop() {
        client.disconnect();
        await server.end("SIGKILL");
        if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
      },
    };
  }
}

function redisArguments(port: number, dir: string, args: string[]): string[] {
  return ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--daemonize", "no", ...args];
}

/** Function calls since the server started or its statistics were reset. */
export async function scriptCalls(server: RedisServer): Promise<number> {
  const stats = String(await server.command("INFO", "commandstats"));
  const calls = [...stats.matchAll(/^cmdstat_fcall(?:_ro)?:calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}
