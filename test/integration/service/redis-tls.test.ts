/** A whole service with Redis over mutual TLS: all certificates and both CAs are rotated under load, and wrong ones are reported. */
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestAuthority, replace, type TestAuthority } from "../../support/certificates.js";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../../support/gateway-process.js";
import { freePort } from "../../support/ports.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { waitFor } from "../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let first: TestAuthority;
let second: TestAuthority;
let backend: SmallBackend;
let redis: RedisServer;
let store: string;
/** Files of Redis. */
const files = () => ({ cert: join(redis.dir, "redis.pem"), key: join(redis.dir, "redis-key.pem") });

beforeAll(async () => {
  first = createTestAuthority("first CA");
  second = createTestAuthority("second CA");
  endings.push(first.remove, second.remove);
  backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const tlsPort = await freePort();
  const { cert, key } = first.issue("redis");
  const tls = ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", first.ca];
  // The plain port is for the commands of the test.
  redis = await startRedis({ args: ["--tls-port", String(tlsPort), ...tls, "--tls-auth-clients", "yes"] });
  endings.push(() => redis.stop());
  store = `rediss://127.0.0.1:${tlsPort}`;
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Nearly every request needs tokens of the store. */
async function start(tls: string): Promise<GatewayProcess> {
  const service = await startGateway(`
workers: 1
log: { level: info }
store: ${store}
store_tls: { ${tls} }
lease: { reserve: 1, timeout_ms: 5000 }
apps: { default: { guaranteed: 100000, burst: 100000, on_store_failure: closed } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
  endings.push(() => service.stop());
  return service;
}

async function statusOf({ url }: GatewayProcess): Promise<number> {
  const { statusCode, body } = await request(`${url}/`);
  await body.dump();
  return statusCode;
}

/** Ids of the connections over TLS that are not of this test. */
async function connections(): Promise<string[]> {
  const list = String(await redis.command("CLIENT", "LIST"));
  return list.split("\n").flatMap((line) => {
    const [, id, port] = /^id=(\d+) .*laddr=127\.0\.0\.1:(\d+) /.exec(line) ?? [];
    return id !== undefined && store.endsWith(`:${port}`) ? [id] : [];
  });
}

it("rotates certificates and CAs of both sides under load, on new connections, without a failed request", async () => {
  const own = first.issue("service");
  const ca = join(first.dir, "store-ca.pem");
  replace(ca, first.pem);
  const service = await start(`ca: ${ca}, cert: ${own.cert}, key: ${own.key}`);
  await waitFor("the store", async () => (await statusOf(service)) === 200);
  // On a busy machine handshakes raise the level by their latency. Then requests would not wait for the store, and prove nothing.
  const pinned = await request(`${service.controlUrl}/admin/ratelimit/degradation`, {
    method: "POST",
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ level: 0, duration_seconds: 600 }),
  });
  expect(pinned.statusCode).toBe(200);
  const seen = new Map<number, number>();
  let running = true;
  const load = Array.from({ length: 4 }, async () => {
    while (running) {
      const status = await statusOf(service);
      seen.set(status, (seen.get(status) ?? 0) + 1);
    }
  });
  const more = async () => {
    const before = seen.get(200) ?? 0;
    await waitFor("more requests", () => (seen.get(200) ?? 0) > before + 50);
  };
  const changes = () => service.output().split("TLS files changed").length - 1;
  /** The primary and the worker follow the files. */
  const follow = async (change: () => void) => {
    const before = changes();
    change();
    await waitFor("both processes to use the new files", () => changes() >= before + 2);
  };
  const both = `${first.pem}\n${second.pem}`;
  const bundle = join(redis.dir, "both.pem");
  replace(bundle, both);
  await more();
  // Both CAs are trusted before a certificate of the new one is used.
  await follow(() => replace(ca, both));
  await redis.command("CONFIG", "SET", "tls-ca-cert-file", bundle);
  const next = second.issue("service").pem;
  await follow(() => {
    replace(own.key, next.key);
    replace(own.cert, next.cert);
  });
  const { pem } = second.issue("redis");
  replace(files().key, pem.key);
  replace(files().cert, pem.cert);
  await redis.command("CONFIG", "SET", "tls-cert-file", files().cert, "tls-key-file", files().key);
  await more();
  await redis.command("CONFIG", "SET", "tls-ca-cert-file", second.ca);
  await follow(() => replace(ca, second.pem));
  // From here on only certificates of the second CA are accepted.
  const old = await connections();
  expect(old.length).toBeGreaterThanOrEqual(2);
  for (const id of old) await redis.command("CLIENT", "KILL", "ID", id);
  await waitFor("new connections", async () => (await connections()).length >= old.length);
  await more();
  running = false;
  await Promise.all(load);
  expect([...seen.keys()]).toEqual([200]);
  expect((await connections()).filter((id) => old.includes(id))).toEqual([]);
  expect((await request(`${service.controlUrl}/health/ready`)).statusCode).toBe(200);
});

it("with another CA, another name or no client certificate the store is unavailable, and the log has the reason", async () => {
  const { cert, key } = first.issue("redis");
  await redis.command("CONFIG", "SET", "tls-ca-cert-file", first.ca, "tls-cert-file", cert, "tls-key-file", key);
  const cases: [tls: string, reason: RegExp][] = [
    [`ca: ${second.ca}`, /unable to verify|self-signed|issuer certificate/i],
    [`ca: ${first.ca}, name: redis.example`, /redis\.example/],
    [`ca: ${first.ca}`, /certificate required|closed|ECONNRESET/i],
  ];
  const check = async ([tls, reason]: (typeof cases)[number]) => {
    const service = await start(tls);
    expect(await statusOf(service)).toBe(503);
    expect((await request(`${service.controlUrl}/health/ready`)).statusCode).toBe(503);
    await waitFor("the reason", () => reason.test(service.output()));
    // A normal stop would wait for the store.
    service.killAll();
  };
  await Promise.all(cases.map(check));
});
