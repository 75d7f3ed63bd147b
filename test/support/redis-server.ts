/** A real redis-server on a free loopback port, in a directory of its own, gone when the test is over. */
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
  /** For `command`, when the server wants a password or TLS. */
  client?: Omit<RedisOptions, "replyMapping">;
  /** False when the server will not answer soon, for instance while it loads. */
  waitUntilReady?: boolean;
  /** Another port that must be free, so many above. */
  alsoFree?: number;
  /** The text of a configuration file, which sentinels need. */
  configuration?: string;
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  readonly pid: number;
  /** One command over a connection of its own, which is kept. */
  command(name: string, ...args: (string | number)[]): Promise<unknown>;
  /** SIGSTOP: the server keeps its connections and answers nothing. */
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
  /** After `kill`, or instead of it: the same port, directory and arguments. */
  restart(options?: { waitUntilReady?: boolean; args?: string[] }): Promise<void>;
  stop(): Promise<void>;
}

export async function startRedis(options: StartRedisOptions = {}): Promise<RedisServer> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "tollgate-redis-")));
  const file = options.configuration === undefined ? [] : [join(dir, "redis.conf")];
  if (file[0] !== undefined) await writeFile(file[0], options.configuration ?? "");
  let args = options.args ?? [];
  // Somebody may take the port between our looking and Redis listening; then another one is tried.
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort(options.alsoFree));
    const started = startProcess("redis-server", [...file, ...redisArguments(port, dir, args)], dir);
    try {
      return await serve(port, started);
    } catch (error) {
      await started.end("SIGKILL");
      if (attempt === 5 || options.port !== undefined) throw error;
    }
  }

  async function serve(port: number, first: ServerProcess): Promise<RedisServer> {
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
      // So that a server which a failed test left stopped does not hang the next one.
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
