/** The spending that nginx reports to the store is exact through reloads, killed workers and shutdown. */
import { afterEach, expect, it } from "vitest";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { sendLoad } from "../../../support/http-load.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { startRedis } from "../../../support/redis-server.js";
import { pause, waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function start(): Promise<{ nginx: NginxProcess; quota: Quota }> {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = `
store: ${redis.url}
workers: 1
cluster: { id: exact }
lease: { idle_ms: 1000 }
log: { level: warn }
apps: { metered: { guaranteed: 100000, burst: 100000, profile: { based_on: iops, bandwidth: 0 } } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const service = await startGateway(yaml);
  endings.push(() => service.stop());
  const nginx = await startNginx(yaml, { services: [service.controlUrl.replace("http://", "")], node: "nginx" });
  endings.push(() => nginx.stop());
  const store = createRedisStore(redis.url);
  endings.push(() => store.close());
  return { nginx, quota: createQuota(store, { id: "exact", capacity: 1_000_000, rate: 500_000, nodeTtlMs: 10_000 }) };
}

async function ledgerOf(quota: Quota) {
  const { node } = (await quota.nodes()).find(({ node }) => node.startsWith("nginx@"))!;
  const ledger = await quota.ledger(node);
  return { ...ledger, app: ledger.apps.find(({ app }) => app === "metered")! };
}

/** Waits until nginx has returned its idle tokens. The ledger is complete then. */
async function settled(quota: Quota) {
  return waitFor("all tokens to be spent or returned", async () => {
    const ledger = await ledgerOf(quota);
    return ledger.held === 0 && ledger;
  });
}

it("nginx spends one token per request through reloads", async () => {
  const { nginx, quota } = await start();
  const loading = sendLoad(nginx.url, "metered", 300, 5);
  for (let i = 0; i < 3; i++) {
    await pause(1_000);
    await nginx.reload();
  }
  const answers = await loading;
  const passed = answers.filter(({ status }) => status === 200).length;
  const unanswered = answers.filter(({ status }) => status === 0).length;
  expect(passed).toBeGreaterThan(500);
  const { app } = await settled(quota);
  expect(app.spent).toBeGreaterThanOrEqual(passed);
  expect(app.spent).toBeLessThanOrEqual(passed + unanswered);
  expect(app.granted).toBe(app.spent + app.returned);
});

it("when nginx workers are killed with SIGKILL, every answered request is reported, and none twice", async () => {
  const { nginx, quota } = await start();
  const loading = sendLoad(nginx.url, "metered", 300, 6);
  for (let i = 0; i < 5; i++) {
    await pause(900);
    process.kill(nginx.workers()[i % 2]!, "SIGKILL");
  }
  const answers = await loading;
  const passed = answers.filter(({ status }) => status === 200).length;
  const unanswered = answers.filter(({ status }) => status !== 200).length;
  expect(passed).toBeGreaterThan(500);
  const { app } = await settled(quota);
  expect(app.spent).toBeGreaterThanOrEqual(passed);
  expect(app.spent).toBeLessThanOrEqual(passed + unanswered);
  expect(app.granted).toBe(app.spent + app.returned);
});

it("an nginx that quits returns all tokens at once and is removed from the nodes", async () => {
  const { nginx, quota } = await start();
  const answers = await sendLoad(nginx.url, "metered", 200, 1);
  const { node } = (await quota.nodes()).find(({ node }) => node.startsWith("nginx@"))!;
  await nginx.quit();
  expect((await quota.nodes()).some((other) => other.node === node)).toBe(false);
  const ledger = await quota.ledger(node);
  expect(ledger.held).toBe(0);
  const app = ledger.apps.find(({ app }) => app === "metered")!;
  expect(app.spent).toBe(answers.filter(({ status }) => status === 200).length);
});
