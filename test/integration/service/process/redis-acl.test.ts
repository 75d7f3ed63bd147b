/** The Redis user of docs/SECURITY.md: a service with this user does all its work, and Redis denies it nothing. */
import { readFileSync } from "node:fs";
import { afterEach, expect, it } from "vitest";
import { fromRoot } from "../../../../build/paths.js";
import { runCommandLine } from "../../../../src/cli/command-line.js";
import { startGateway } from "../../../support/gateway-process.js";
import { startRedisCluster } from "../../../support/redis-cluster.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { connectSocket } from "../../../support/socket-clients.js";
import { waitFor } from "../../../support/wait-for.js";
import { startWebSocketBackend } from "../../../support/ws-backend.js";

const PASSWORD = "password-of-the-tests";
const page = readFileSync(fromRoot("docs/SECURITY.md"), "utf8");
const [, documented = ""] = /^ACL SETUSER tollgate (.+)$/m.exec(page) ?? [];
const rules = documented.replace("PASSWORD", PASSWORD).split(" ");

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** The default user of tests keeps its rights: it is used to look at the log. */
async function restrict(servers: readonly RedisServer[]): Promise<void> {
  for (const server of servers) {
    await server.command("ACL", "SETUSER", "tollgate", ...rules);
    await server.command("ACL", "LOG", "RESET");
  }
}

async function denials(servers: readonly RedisServer[]): Promise<string[]> {
  const logs = (await Promise.all(servers.map((server) => server.command("ACL", "LOG")))) as unknown[][][];
  return logs.flat().map((entry) => entry.slice(0, 10).join(" "));
}

async function useEverything(store: string): Promise<void> {
  const backend = await startWebSocketBackend();
  endings.push(() => backend.stop());
  const gateway = await startGateway(`
store: ${store}
workers: 1
lease: { timeout_ms: 5000 }
apps:
  shop: { guaranteed: 100, burst: 100, borrow: true, on_store_failure: closed }
  tiny: { guaranteed: 0.001, burst: 3, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } }
limits: [{ name: per-user, key: [user], rate: 10/s, on_store_failure: closed }]
upstreams: { backend: { targets: ["${backend.target}"] } }
routes:
  - { path: /, upstream: backend }
  - { path: /ws/, upstream: backend, connections: { max_per_pod: 2, max_total: 5, rate_per_second: 50 } }
`);
  endings.push(() => gateway.stop());
  const tollgate = async (line: string) => {
    const { exitCode, text, complaint } = await runCommandLine([
      ...line.split(" "),
      ...["--config", gateway.file, "--timeout", "30s"],
    ]);
    // Success, refused (nothing to lend or repay), or degraded, as on a busy machine.
    expect([0, 1, 5], `${line}: ${text} ${complaint}`).toContain(exitCode);
  };
  await waitFor("the service to be ready", async () => {
    const ready = await runCommandLine(["health", "ready", "--config", gateway.file]);
    return ready.exitCode === 0;
  });
  const ask = (app: string) => fetch(gateway.url, { headers: { "x-app-id": app, "x-user-id": "ann" } });
  await waitFor("a decision with the store", async () => (await ask("shop")).status !== 503);
  const statuses = await Promise.all(Array.from({ length: 6 }, async () => (await ask("tiny")).status));
  expect(statuses).toContain(429);
  const client = connectSocket(`${gateway.url.replace("http", "ws")}/ws/`, { "x-app-id": "shop" });
  endings.push(() => client.socket.terminate());
  expect((await client.outcome).open).toBe(true);
  for (const line of [
    ...["status", "apps", "why tiny", "connections", "usage per-user ann"],
    ...["reset per-user ann", "top-up per-user ann 2", "reconcile", "borrow shop 5", "repay shop 1"],
    ...["emergency on --for 1m", "emergency off", "config clear"],
  ]) {
    await tollgate(line);
  }
}

it("names the commands that scripts may run", () => {
  const source = readFileSync(fromRoot("src/scripts/redis-api.ts"), "utf8");
  const names = [...source.matchAll(/command: ((?:"[A-Z]+"(?: \| )?)+)/g)].flatMap(([, list = ""]) =>
    list.split(" | "),
  );
  const used = names.map((name) => name.replaceAll('"', "").toLowerCase());
  expect(used.length).toBeGreaterThan(15);
  const allowed = rules.filter((rule) => rule.startsWith("+")).map((rule) => rule.slice(1));
  expect(allowed).toEqual(expect.arrayContaining(used));
  expect(allowed).not.toContain("@all");
});

it("is sufficient for a single Redis", async () => {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  await restrict([redis]);
  await useEverything(`redis://tollgate:${PASSWORD}@127.0.0.1:${redis.port}`);
  expect(await denials([redis])).toEqual([]);
});

it("is sufficient for Redis Cluster", async () => {
  const cluster = await startRedisCluster();
  endings.push(() => cluster.stop());
  await restrict(cluster.nodes);
  await useEverything(cluster.url.replace("://", `://tollgate:${PASSWORD}@`));
  expect(await denials(cluster.nodes)).toEqual([]);
});
