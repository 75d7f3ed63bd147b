/** nginx while replies of the service are late or lost: no request is refused as over its limit, and nothing is charged twice. */
import { afterEach, expect, it } from "vitest";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { sendLoad, startHttpLoad } from "../../../support/http-load.js";
import { startNginx } from "../../../support/nginx-process.js";
import { freePort } from "../../../support/ports.js";
import { startRedis } from "../../../support/redis-server.js";
import { startTcpProxy } from "../../../support/tcp-proxy.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const TTL_MS = 3_000;
const ample = { id: "ample", guaranteed: 20_000, burst: 20_000, priority: 2, borrow: false };

/** `link` is between nginx and its service, and delays replies by `delayMs`. */
async function start(idleMs: number) {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = `
store: ${redis.url}
workers: 1
cluster: { id: slow, node_ttl_ms: ${TTL_MS}, reconcile_interval_ms: 1000 }
lease: { idle_ms: ${idleMs}, report_interval_ms: 100 }
fail_open_tokens: 100000
log: { level: warn }
apps:
  ample: { guaranteed: 20000, burst: 20000, profile: { based_on: iops, bandwidth: 0 } }
  strict: { guaranteed: 20000, burst: 20000, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const service = await startGateway(yaml);
  endings.push(() => service.stop());
  const link = await startTcpProxy(Number(new URL(service.controlUrl).port));
  endings.push(() => link.stop());
  const nginx = await startNginx(yaml, { services: [`127.0.0.1:${link.port}`], node: "nginx", workers: 2 });
  endings.push(() => nginx.stop());
  const store = createRedisStore(redis.url);
  endings.push(() => store.close());
  const quota = createQuota(store, { id: "slow", capacity: 1_000_000, rate: 500_000, nodeTtlMs: TTL_MS });
  return { nginx, link, quota };
}

const nodeOf = async (quota: Quota) => (await quota.nodes()).find(({ node }) => node.startsWith("nginx@"))?.node;

it("nginx admits all requests of an idle app that becomes busy while replies are delayed by 300 ms", async () => {
  const { nginx, link } = await start(1_000);
  await sendLoad(nginx.url, "ample", 2, 3);
  link.delayMs = 300;
  const answers = await sendLoad(nginx.url, "ample", 600, 1.5);
  expect(answers.length).toBeGreaterThan(500);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
});

it("the degradation level stays low while nginx itself is late and the store is healthy", async () => {
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = `
apps: { default: { guaranteed: 1000, burst: 1000 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const service = await startGateway(yaml);
  endings.push(() => service.stop());
  const port = await freePort();
  // Other Lua code in this nginx that needs much time, as measured by the clock of the process.
  const http = `server { listen 127.0.0.1:${port}; location / { content_by_lua_block {
    local ends = os.clock() + 0.3
    while os.clock() < ends do end
    ngx.say("done")
  } } }`;
  const services = [service.controlUrl.replace("http://", "")];
  const nginx = await startNginx(yaml, { services, workers: 1, http });
  endings.push(() => nginx.stop());
  const page = async () => (await fetch(`${nginx.statusUrl}/metrics`)).text();
  const read = (text: string, name: string) => Number(new RegExp(`^${name}\\{.*\\} (\\d+)$`, "m").exec(text)?.[1]);
  const before = read(await page(), "ratelimit_node_syncs_total");
  const levels: number[] = [];
  let syncs = 0;
  while (syncs < 6) {
    await (await fetch(`http://127.0.0.1:${port}/`)).text();
    // Each needs a token, so that nginx has something to report.
    await (await fetch(nginx.url)).text();
    const text = await page();
    levels.push(read(text, "ratelimit_degradation_level"));
    syncs = read(text, "ratelimit_node_syncs_total") - before;
  }
  expect(Math.max(...levels)).toBeLessThan(2);
  expect(read(await page(), "ratelimit_node_failed_syncs_total")).toBe(0);
});

it("an app with `on_store_failure: closed` gets tokens from a store that stays slow", async () => {
  const { nginx, link } = await start(60_000);
  link.delayMs = 150;
  // The other app keeps nginx syncing. From level 2 on, no request waits for the store.
  const others = startHttpLoad(nginx.url, "ample", 50);
  endings.push(() => others.stop());
  const level = async () => {
    const page = await (await fetch(`${nginx.statusUrl}/metrics`)).text();
    return Number(/^ratelimit_degradation_level\{.*\} (\d)$/m.exec(page)?.[1]);
  };
  await waitFor("degradation level 2", async () => (await level()) === 2);
  const ask = async () => (await fetch(nginx.url, { headers: { "x-app-id": "strict" } })).status;
  // The level may change for a while.
  const admitted = async () => (await level()) === 2 && (await ask()) === 200;
  await waitFor("tokens at level 2", admitted, { withinMs: 90_000 });
});

it("spending is charged once if the reply to a report is lost and the node is then declared dead", async () => {
  // Idle tokens stay on the lease, so that nothing else makes nginx sync the app again.
  const { nginx, link, quota } = await start(3_600_000);
  const first = (await sendLoad(nginx.url, "ample", 100, 1)).length;
  const spent = async () => (await quota.inspect(ample)).spent;
  await waitFor("all spending to be reported", async () => (await spent()) === first);
  const before = (await nodeOf(quota))!;
  link.delayMs = 600_000;
  const second = (await sendLoad(nginx.url, "ample", 100, 0.2)).length;
  await waitFor("the report to be applied", async () => (await spent()) === first + second);
  const workers = nginx.workers();
  for (const pid of workers) process.kill(pid, "SIGSTOP");
  await waitFor("the node to be declared dead", async () => (await nodeOf(quota)) === undefined);
  link.delayMs = 0;
  for (const pid of workers) process.kill(pid, "SIGCONT");
  const after = await waitFor("the node to be registered again", () => nodeOf(quota));
  expect(after).not.toBe(before);
  const third = (await sendLoad(nginx.url, "ample", 100, 0.5)).length;
  await waitFor("a report of the new epoch", async () => (await quota.ledger(after)).apps[0]?.spent);
  await nginx.quit();
  expect(await spent()).toBe(first + second + third);
});
