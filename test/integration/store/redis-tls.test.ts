/** Redis over TLS, with a real redis-server: which certificates are accepted, and rotation under load. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock as clock } from "../../../src/shared/clock.js";
import { followingOptions } from "../../../src/shared/tls/tls-clients.js";
import { openTlsFiles } from "../../../src/shared/tls/tls-files.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { createTestAuthority, replace, type TestAuthority } from "../../support/certificates.js";
import { freePort } from "../../support/ports.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { waitFor } from "../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let authority: TestAuthority;
let other: TestAuthority;
beforeAll(() => {
  authority = createTestAuthority();
  other = createTestAuthority("another CA");
  endings.push(authority.remove, other.remove);
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** The plain port stays open for the commands of the test. */
async function startSecure(server: { cert: string; key: string }, clients: "yes" | "no") {
  const tlsPort = await freePort();
  const files = ["--tls-cert-file", server.cert, "--tls-key-file", server.key, "--tls-ca-cert-file", authority.ca];
  const redis = await startRedis({ args: ["--tls-port", String(tlsPort), ...files, "--tls-auth-clients", clients] });
  endings.push(() => redis.stop());
  return { redis, url: `rediss://127.0.0.1:${tlsPort}` };
}

const logged: string[] = [];
const note = (_: object, message: string) => void logged.push(message);
const log = { info: note, warn: note };

function open(
  url: string,
  paths: { ca?: string; cert?: string; key?: string; name?: string },
  deadlineMs = 5_000,
): Store {
  const { name, ...files } = paths;
  const opened = openTlsFiles(files, { name: "store_tls", clock, log });
  const store = createRedisStore({ url, deadlineMs, tls: followingOptions(opened, name) });
  endings.push(opened.close, () => store.close());
  return store;
}

const calls = (store: Store) =>
  store.run("lock", ["{t}:lock"], ["acquire", "holder", "1000"]).then(
    () => "ok",
    (error: Error) => error.message,
  );

describe("a store with a rediss URL", () => {
  let redis: RedisServer;
  let url: string;
  let client: { cert: string; key: string };
  beforeAll(async () => {
    ({ redis, url } = await startSecure(authority.issue("redis"), "yes"));
    client = authority.issue("service");
  });

  it("works with the CA, the name and a client certificate", async () => {
    expect(await calls(open(url, { ca: authority.ca, ...client }))).toBe("ok");
    expect(await calls(open(url, { ca: authority.ca, ...client, name: "localhost" }))).toBe("ok");
    expect(String(await redis.command("INFO", "server"))).toContain("redis_version");
  });

  it("is unavailable, with the reason, if CA, name, validity or client certificate are wrong", async () => {
    const { url: expired } = await startSecure(authority.expired("expired-redis"), "no");
    const { ca } = authority;
    const cases: [url: string, paths: Parameters<typeof open>[1], reason: RegExp][] = [
      [url, { ca: other.ca, ...client }, /unable to verify|self-signed|issuer certificate/i],
      [url, { ca, ...client, name: "redis.example" }, /redis\.example/],
      [expired, { ca }, /expired/i],
      // Redis ends the connection.
      [url, { ca }, /certificate required|closed|ECONNRESET/i],
      [url, { ca, ...other.issue("stranger") }, /alert|closed|ECONNRESET/i],
    ];
    const outcomes = await Promise.all(cases.map(([place, paths]) => calls(open(place, paths, 3_000))));
    for (const [i, [, , reason]] of cases.entries()) expect(outcomes[i]).toMatch(reason);
  });
});

it("rotates certificates under load: no call fails, and new connections use the new files", async () => {
  const own = authority.issue("rotated");
  const { redis, url } = await startSecure(authority.issue("redis-2"), "yes");
  const store = open(url, { ca: authority.ca, cert: own.cert, key: own.key }, 5_000);
  let running = true;
  let done = 0;
  const failed: string[] = [];
  const load = (async () => {
    while (running) {
      const outcome = await calls(store);
      if (outcome === "ok") done++;
      else failed.push(outcome);
    }
  })();
  await waitFor("calls before", () => done > 50);
  const changed = async (authorityOfNext: TestAuthority) => {
    const before = logged.length;
    const { pem } = authorityOfNext.issue("rotated");
    replace(own.key, pem.key);
    replace(own.cert, pem.cert);
    await waitFor("the new files", () =>
      logged.slice(before).some((line) => line.includes("new connections use them")),
    );
  };
  await changed(authority);
  const before = done;
  await waitFor("calls after", () => done > before + 50);
  running = false;
  await load;
  expect(failed).toEqual([]);
  const disconnect = () => redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await changed(other);
  await disconnect();
  await waitFor("a rejected certificate", async () => (await calls(store)) !== "ok");
  await changed(authority);
  await waitFor("an accepted certificate", async () => (await calls(store)) === "ok");
});
