/** nginx and its services: failover, a node that was declared dead, added and removed apps, configuration mismatch, metrics and health. */
import { fileURLToPath } from "node:url";
import { request } from "undici";
import { afterEach, expect, it } from "vitest";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { type GatewayProcess, PLANE_TOKEN, startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { sendLoad } from "../../../support/http-load.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const TTL_MS = 3_000;
const metered = "{ guaranteed: 100000, burst: 100000, profile: { based_on: iops, bandwidth: 0 } }";
const both = `apps: { metered: ${metered}, other: ${metered} }`;

interface World {
  nginx: NginxProcess;
  quota: Quota;
  services: GatewayProcess[];
  /** The tokens that the store has recorded as spent by an app. */
  spent(app: string): Promise<number>;
  yaml(apps: string): string;
}

async function start({ services: count = 1, idleMs = 1_000, env = {}, overload = "" } = {}): Promise<World> {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = (apps: string) => `
store: ${redis.url}
workers: 1
cluster: { id: exact, node_ttl_ms: ${TTL_MS}, reconcile_interval_ms: 1000 }
lease: { idle_ms: ${idleMs}, report_interval_ms: 1000 }
log: { level: warn }
${overload}
${apps}
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const services: GatewayProcess[] = [];
  for (let i = 0; i < count; i++) {
    const service = await startGateway(`node_id: service-${i}\n${yaml(both)}`, { env });
    endings.push(() => service.stop());
    services.push(service);
  }
  const addresses = services.map(({ controlUrl }) => controlUrl.replace("http://", ""));
  const nginx = await startNginx(yaml(both), { services: addresses, node: "nginx" });
  endings.push(() => nginx.stop());
  const store = createRedisStore(redis.url);
  endings.push(() => store.close());
  const quota = createQuota(store, { id: "exact", capacity: 1_000_000, rate: 500_000, nodeTtlMs: TTL_MS });
  const spent = async (app: string) => Number(await redis.command("HGET", `ratelimit:{exact/0}:app:${app}`, "spent"));
  return { nginx, quota, services, spent, yaml };
}

it("uses another service while one is overloaded", async () => {
  const preload = fileURLToPath(new URL("../../../support/load-process.mjs", import.meta.url));
  const { nginx, services } = await start({
    services: 2,
    env: { NODE_OPTIONS: `--import ${preload} --expose-gc --max-old-space-size=160` },
    overload: "overload: { loop_lag_ms: 0, heap: 0.4 }",
  });
  const metric = async (service: GatewayProcess, name: string) => {
    const { body } = await request(`${service.controlUrl}/metrics`);
    const line = (await body.text()).split("\n").find((one) => one.startsWith(name));
    return Number(line?.split(" ").at(-1));
  };
  const syncs = (service: GatewayProcess) => metric(service, 'ratelimit_node_syncs_total{node_id="nginx"}');
  await waitFor("the first service to be used", async () => (await syncs(services[0]!)) > 0);
  process.kill(services[0]!.pid, "SIGWINCH");
  await waitFor("an overloaded service", async () => {
    const reply = await request(`${services[0]!.controlUrl}/v1/sync`, {
      method: "POST",
      headers: { authorization: `Bearer ${PLANE_TOKEN}` },
      body: "{}",
    });
    await reply.body.dump();
    return reply.statusCode === 503;
  });
  await waitFor("the other service to be used", async () => (await syncs(services[1]!)) > 0);
  process.kill(services[0]!.pid, "SIGWINCH");
  const { statusCode } = await request(`${nginx.url}/`);
  expect(statusCode).toBe(200);
});

async function nodeOf(quota: Quota): Promise<string | undefined> {
  return (await quota.nodes()).find(({ node }) => node.startsWith("nginx@"))?.node;
}

const passedOf = (answers: { status: number }[]) => answers.filter(({ status }) => status === 200).length;

/** Waits until the ledger has this value. Fails with the value that was recorded instead. */
async function waitForReport(quota: Quota, node: string, id: string, spent: number): Promise<void> {
  await waitFor("all spending to be reported", async () => {
    expect((await spentOf(quota, node, id)).spent).toBe(spent);
    return true;
  });
}

async function spentOf(quota: Quota, node: string, id: string) {
  const { apps } = await quota.ledger(node);
  return apps.find(({ app }) => app === id) ?? { granted: 0, spent: 0, returned: 0 };
}

it("the tokens of an app that a reload removes are returned, and its counters continue when it is added again", async () => {
  // Without a reload, the idle tokens would stay on the lease for an hour.
  const { nginx, quota, yaml } = await start({ idleMs: 3_600_000 });
  const first = passedOf(await sendLoad(nginx.url, "other", 100, 1));
  const node = (await nodeOf(quota))!;
  const before = await spentOf(quota, node, "other");
  expect(before.granted).toBeGreaterThan(before.spent + before.returned);
  await nginx.reload(yaml(`apps: { metered: ${metered} }`));
  const left = await waitFor("the tokens to be returned", async () => {
    const app = await spentOf(quota, node, "other");
    return app.granted === app.spent + app.returned && app;
  });
  expect(left.spent).toBe(first);
  const old = nginx.workers();
  await nginx.reload(yaml(both));
  // The old workers do not know the app, so the app "default" would pay.
  await waitFor("the old workers to exit", () => !nginx.workers().some((pid) => old.includes(pid)));
  const second = passedOf(await sendLoad(nginx.url, "other", 100, 1));
  expect(second).toBeGreaterThan(0);
  await waitForReport(quota, node, "other", first + second);
});

it("nginx switches to the next service when one dies: no request is refused, and all spending is reported", async () => {
  const { nginx, quota, services } = await start({ services: 2 });
  const loading = sendLoad(nginx.url, "metered", 100, 4);
  await waitFor("the node to be registered", () => nodeOf(quota));
  services[0]!.killAll();
  const answers = await loading;
  expect(passedOf(answers)).toBe(answers.length);
  const node = (await nodeOf(quota))!;
  await waitForReport(quota, node, "metered", answers.length);
});

it("an nginx that was declared dead starts a new epoch, and is charged for what it spent", async () => {
  const { nginx, quota, spent } = await start();
  const first = passedOf(await sendLoad(nginx.url, "metered", 100, 1));
  const before = (await nodeOf(quota))!;
  // Spending that is not reported yet would be charged in the new epoch.
  await waitForReport(quota, before, "metered", first);
  const all = nginx.workers();
  for (const pid of all) process.kill(pid, "SIGSTOP");
  await waitFor("the node to be declared dead", async () => (await nodeOf(quota)) === undefined);
  for (const pid of all) process.kill(pid, "SIGCONT");
  const passed = passedOf(await sendLoad(nginx.url, "metered", 100, 1));
  expect(passed).toBeGreaterThan(0);
  const after = await waitFor("the node to be registered again", () => nodeOf(quota));
  expect(after).not.toBe(before);
  // What it spent before it learned of the new epoch is charged in the old one.
  await waitFor("all spending to be charged", async () => (await spent("metered")) >= first + passed);
  expect(await spent("metered")).toBe(first + passed);
});

it("nginx logs once that the service has another configuration", async () => {
  const { nginx, yaml } = await start();
  await nginx.reload(yaml(`apps: { metered: ${metered}, third: ${metered} }`));
  const ready = async () => (await (await request(`${nginx.statusUrl}/health/ready`)).body.json()) as Ready;
  // An old worker may still reply.
  const own = await waitFor("a worker with the new configuration", async () => {
    const { config_version, service_config_version } = await ready();
    return config_version !== service_config_version && config_version;
  });
  const said = () => nginx.log().split(`this nginx has ${own}`).length - 1;
  await waitFor("the log line", () => said() > 0);
  await sendLoad(nginx.url, "metered", 100, 1);
  expect(said()).toBe(1);
});

interface Ready {
  ready: boolean;
  node: string;
  config_version: string;
  service_config_version: string;
}

it("nginx serves its metrics and its health on the status listener", async () => {
  const { nginx } = await start();
  const answers = await sendLoad(nginx.url, "metered", 100, 1);
  await waitFor("the counts of all workers", async () => {
    const text = await (await request(`${nginx.statusUrl}/metrics`)).body.text();
    return text.includes(`ratelimit_requests_allowed_total{app_id="metered"} ${passedOf(answers)}\n`);
  });
  const { statusCode, body } = await request(`${nginx.statusUrl}/health/ready`);
  expect(statusCode).toBe(200);
  expect((await body.json()) as Ready).toMatchObject({ ready: true, node: "nginx" });
  expect((await request(`${nginx.statusUrl}/health/live`)).statusCode).toBe(200);
  const deep = await request(`${nginx.statusUrl}/health/deep`);
  expect({ status: deep.statusCode, ...((await deep.body.json()) as object) }).toMatchObject({
    ...{ status: expect.stringMatching(/^(healthy|degraded)$/), node_id: "nginx", emergency_mode: false },
    components: {
      nginx: { status: "healthy", workers: 2 },
      service: { last_contact_ms: expect.any(Number), live_nodes: expect.any(Number) },
      shared_memory: { status: "healthy" },
      config: { service_version: expect.any(String) },
    },
  });
});
