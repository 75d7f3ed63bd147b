/** `tollgate scripts` against real servers: shows the loaded versions per primary and removes only old ones. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { loadLibrary } from "../../../src/store/function-library.js";
import { otherVersion } from "../../support/libraries.js";
import { type RedisCluster, startRedisCluster } from "../../support/redis-cluster.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";

const current = loadLibrary();
const old = otherVersion();
const foreign = "#!lua name=foreign\nredis.register_function('foreign', function() return 1 end)";

const scripts = (...args: string[]) => runCommandLine(["scripts", ...args]);
const json = async (...args: string[]) =>
  JSON.parse((await scripts(...args, "--json")).text) as Record<string, unknown>;

describe("on one Redis", () => {
  let redis: RedisServer;
  let server: string;
  beforeAll(async () => {
    redis = await startRedis();
    server = `127.0.0.1:${redis.port}`;
  });
  beforeEach(() => redis.command("FUNCTION", "FLUSH"));
  afterAll(() => redis.stop());

  test("shows that the library is not loaded, and does not load it", async () => {
    const { text, exitCode } = await scripts("--store", redis.url);
    expect(exitCode).toBe(0);
    expect(text).toContain(`library ${current.name}, `);
    expect(text).toContain(`${server}: not loaded\n`);
    expect(await redis.command("FUNCTION", "LIST")).toEqual([]);
  });

  test("shows other versions and removes them, but neither the current one nor foreign libraries", async () => {
    for (const source of [current.source, old.source, foreign]) await redis.command("FUNCTION", "LOAD", source);
    expect((await scripts("--store", redis.url)).text).toContain(`${server}: loaded; other versions: ${old.name}\n`);
    const { text, exitCode } = await scripts("--store", redis.url, "--remove-old");
    expect(exitCode).toBe(0);
    expect(text).toContain(`${server}: removed ${old.name}\n`);
    expect(text).toContain(`${server}: loaded\n`);
    expect(await redis.command("FCALL", "foreign", 0)).toBe(1);
    expect(await json("--store", redis.url, "--remove-old")).toMatchObject({
      library: current.name,
      servers: [{ server, libraries: [current.name] }],
      removed: [{ server, libraries: [] }],
    });
  });

  test("takes the store from a configuration file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-scripts-"));
    const file = join(folder, "config.yaml");
    writeFileSync(file, `store: ${redis.url}\n`);
    expect((await scripts("--config", file)).text).toContain(`${server}: not loaded\n`);
    rmSync(folder, { recursive: true });
  });

  test("ends with exit code 4 when the user may not list functions", async () => {
    await redis.command("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+@all", "-function");
    const outcome = await scripts("--store", `redis://narrow:secret@${server}`);
    expect(outcome).toMatchObject({ text: "", exitCode: 4, complaint: expect.stringContaining("denied") });
    expect(outcome.complaint).not.toContain("secret");
  });
});

test("shows and removes on every primary of a cluster", async () => {
  const cluster: RedisCluster = await startRedisCluster();
  try {
    const primaries = await cluster.primaries();
    for (const node of primaries) await node.command("FUNCTION", "LOAD", old.source);
    const servers = primaries.map(({ port }) => `127.0.0.1:${port}`).sort();
    const { removed } = (await json("--store", cluster.url, "--remove-old")) as { removed: { server: string }[] };
    expect(removed.map((each) => each.server).sort()).toEqual(servers);
    for (const node of primaries) expect(await node.command("FUNCTION", "LIST")).toEqual([]);
  } finally {
    await cluster.stop();
  }
});

test.each([
  ["--remove-old without a store", ["--remove-old"], 2, /--remove-old needs --store or --config/],
  ["both --store and --config", ["--store", "redis://h", "--config", "f"], 2, /not both/],
  ["an embedded store", ["--store", "embedded"], 2, /not a Redis/],
  ["a server that does not listen", ["--store", "redis://127.0.0.1:1"], 3, /ECONNREFUSED/],
])("rejects %s", async (_, args, exitCode, complaint) => {
  expect(await scripts(...args)).toMatchObject({ text: "", exitCode, complaint: expect.stringMatching(complaint) });
});
