/** A primary, a replica and three sentinels. */
import { type RedisServer, startRedis } from "./redis-server.js";
import { waitFor } from "./wait-for.js";

export interface SentinelSetup {
  readonly url: string;
  readonly servers: RedisServer[];
  readonly sentinels: RedisServer[];
  /** The primary according to the sentinels. */
  primary(): Promise<RedisServer>;
  /** Kills the primary and waits until the sentinels have promoted the replica. */
  killPrimary(): Promise<void>;
  /** Promotes the replica while both run. */
  switchPrimary(): Promise<void>;
  stop(): Promise<void>;
}

export interface StartSentinelOptions {
  /** For Redis and the sentinels. */
  password?: string;
  sentinelPassword?: string;
}

const NAME = "tollgate-main";

export async function startSentinel({ password, sentinelPassword }: StartSentinelOptions = {}): Promise<SentinelSetup> {
  const all: RedisServer[] = [];
  try {
    const protect = password === undefined ? [] : ["--requirepass", password, "--masterauth", password];
    const client = password === undefined ? {} : { client: { password } };
    const primary = await startRedis({ args: protect, ...client });
    all.push(primary);
    const replica = await startRedis({
      args: [...protect, "--replicaof", "127.0.0.1", String(primary.port), "--repl-diskless-sync-delay", "0"],
      ...client,
    });
    all.push(replica);
    const configuration = [
      `sentinel monitor ${NAME} 127.0.0.1 ${primary.port} 2`,
      `sentinel down-after-milliseconds ${NAME} 500`,
      `sentinel failover-timeout ${NAME} 3000`,
      ...(password === undefined ? [] : [`sentinel auth-pass ${NAME} ${password}`]),
      ...(sentinelPassword === undefined
        ? []
        : [`requirepass ${sentinelPassword}`, `sentinel sentinel-pass ${sentinelPassword}`]),
    ].join("\n");
    const sentinelClient = sentinelPassword === undefined ? {} : { client: { password: sentinelPassword } };
    const sentinels: RedisServer[] = [];
    for (let i = 0; i < 3; i++) {
      const sentinel = await startRedis({ args: ["--sentinel"], configuration, ...sentinelClient });
      sentinels.push(sentinel);
      all.push(sentinel);
    }
    await waitFor(
      "the sentinels to see each other, the primary and its replica",
      async () => (await Promise.all(sentinels.map(isWatched))).every(Boolean),
      { everyMs: 100 },
    );
    return describeSetup([primary, replica], sentinels);
  } catch (error) {
    await Promise.all(all.map((server) => server.stop()));
    throw error;
  }
}

async function isWatched(sentinel: RedisServer): Promise<boolean> {
  const view = String(await sentinel.command("INFO", "sentinel"));
  const replicas = (await sentinel.command("SENTINEL", "REPLICAS", NAME)) as string[][];
  const fields = replicas[0] ?? [];
  return (
    view.includes("status=ok") &&
    view.includes("slaves=1,sentinels=3") &&
    fields[fields.indexOf("flags") + 1] === "slave" &&
    fields[fields.indexOf("master-link-status") + 1] === "ok"
  );
}

function describeSetup(servers: RedisServer[], sentinels: RedisServer[]): SentinelSetup {
  async function primary(): Promise<RedisServer> {
    return waitFor("the sentinels to agree on a primary", async () => {
      const ports = await Promise.all(
        sentinels.map(async (sentinel) => {
          const address = (await sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)) as string[];
          return address[1];
        }),
      );
      return new Set(ports).size === 1 && servers.find(({ port }) => String(port) === ports[0]);
    });
  }

  async function untilPrimaryIsNot(before: RedisServer): Promise<void> {
    await waitFor("another primary", async () => (await primary()) !== before, { everyMs: 100 });
  }

  return {
    url: `redis-sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",")}/${NAME}`,
    servers,
    sentinels,
    primary,
    async killPrimary() {
      const before = await primary();
      await before.kill();
      await untilPrimaryIsNot(before);
    },
    async switchPrimary() {
      const before = await primary();
      await sentinels[0]?.command("SENTINEL", "FAILOVER", NAME);
      await untilPrimaryIsNot(before);
    },
    async stop() {
      await Promise.all([...servers, ...sentinels].map((server) => server.stop()));
    },
  };
}
