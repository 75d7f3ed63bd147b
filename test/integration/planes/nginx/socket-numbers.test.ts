/** Connection metrics of nginx: on its own page, over all workers including killed and replaced ones, and at the services. */

import { request } from "undici";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { metrics } from "../../../../src/service/metrics/catalog.js";
import { connectionReasons } from "../../../../src/service/metrics/labels.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type ReadPage, readPage } from "../../../support/metrics-page.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { slotMembers } from "../../../support/slot-keys.js";
import { connectSocket, type SocketClient } from "../../../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../../../support/socket-pods.js";
import { waitFor } from "../../../support/wait-for.js";

const NODE = "nginx-of-numbers";
const LIMIT = 6;
const endings: (() => unknown)[] = [];
let redis: RedisServer;
let service: GatewayProcess;
let pods: SocketPod[];
let nginx: NginxProcess;
let yaml: (targets: SocketPod[]) => string;

beforeAll(async () => {
  redis = await startRedis();
  endings.push(() => redis.stop());
  pods = await Promise.all([startSocketPod(() => undefined), startSocketPod(() => undefined)]);
  endings.push(() => Promise.all(pods.map((pod) => pod.stop())));
  // Long leases: within seconds no lease expires.
  const connections = `{ max_per_pod: ${LIMIT}, max_total: ${LIMIT}, rate_per_second: 0, lease_s: 600 }`;
  yaml = (targets) => `
store: ${redis.url}
workers: 1
log: { level: warn }
apps: { default: { guaranteed: 100000, burst: 100000 }, trial: { guaranteed: 100000, burst: 100000, dry_run: true } }
upstreams: { chat: { targets: [${targets.map(({ address }) => `"${address}"`).join(", ")}] } }
routes: [{ path: /ws/, upstream: chat, connections: ${connections} }]
`;
  service = await startGateway(yaml(pods));
  endings.push(() => service.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const clients: SocketClient[] = [];
async function start(workers = 2): Promise<void> {
  const services = [service.controlUrl.replace("http://", "")];
  nginx = await startNginx(yaml(pods), { services, workers, node: NODE });
}
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.terminate();
  try {
    await waitFor("all slots to be free", async () => (await slotMembers(redis, "global_conn")) === 0);
  } finally {
    await nginx.stop();
  }
});

const pageOf = async (url: string) => readPage(await (await request(`${url}/metrics`)).body.text());
const own = () => pageOf(nginx.statusUrl);
const ofService = () => pageOf(service.controlUrl);
const active = (page: ReadPage) => page.value("websocket_connections_active_total");
const refused = (page: ReadPage, reason: string) => page.value("websocket_refusals_total", { reason }) ?? 0;

async function open(count: number): Promise<SocketClient[]> {
  const some = Array.from({ length: count }, () => connectSocket(`${nginx.url}/ws/`));
  clients.push(...some);
  for (const { outcome } of some) expect(await outcome).toMatchObject({ open: true });
  return some;
}

async function refusal(): Promise<unknown> {
  const client = connectSocket(`${nginx.url}/ws/`);
  clients.push(client);
  const outcome = await client.outcome;
  return outcome.open ? "open" : `${outcome.status} ${outcome.reason}`;
}

const asked = (page: ReadPage) => page.sum("ratelimit_requests_total", { app_id: "default" });

/** Waits until the page has this value, and returns the whole page. */
async function until(what: string, read: () => Promise<ReadPage>, holds: (page: ReadPage) => boolean) {
  return waitFor(what, async () => {
    const page = await read();
    return holds(page) && page;
  });
}

it("the nginx page has each of the gateway's connection metrics, with the same type, labels, reasons and bounds", async () => {
  await start();
  const page = await own();
  // A service reads the slots of pods from the store, for all of them.
  const wanted = Object.entries(metrics).filter(
    ([name]) => name.startsWith("websocket_") && name !== "websocket_pod_slots",
  );
  expect(wanted.length).toBeGreaterThan(5);
  for (const [name, { type, labels }] of wanted) {
    expect(page.types.get(name), name).toBe(type);
    const sampled = type === "histogram" ? `${name}_count` : name;
    const samples = page.samples.filter((sample) => sample.name === sampled);
    expect(samples.length, name).toBeGreaterThan(0);
    for (const sample of samples) expect(Object.keys(sample.labels).sort(), name).toEqual([...labels].sort());
  }
  const labelsOf = (name: string, label: string) =>
    page.samples.filter((sample) => sample.name === name).map(({ labels }) => labels[label]);
  expect(labelsOf("websocket_refusals_total", "reason")).toEqual(connectionReasons);
  expect(labelsOf("websocket_acquire_seconds_bucket", "le")).toEqual([
    ...metrics.websocket_acquire_seconds.bounds.map(String),
    "+Inf",
  ]);
  expect(labelsOf("websocket_pod_connections", "upstream")).toEqual(["chat", "chat"]);
  expect(page.samples.filter(({ name, value }) => name.startsWith("websocket_connections") && value !== 0)).toEqual([]);
});

it("nginx and the service count connections that only a dry run admits", async () => {
  await start();
  await open(LIMIT);
  const trial = connectSocket(`${nginx.url}/ws/`, { "x-app-id": "trial" });
  clients.push(trial);
  expect(await trial.outcome).toMatchObject({ open: true });
  const counted = (page: ReadPage) =>
    page.value("websocket_dry_run_refusals_total", { reason: "TOTAL_LIMIT_EXCEEDED" }) === 1;
  const page = await until("nginx to count it", own, counted);
  expect([active(page), refused(page, "TOTAL_LIMIT_EXCEEDED")]).toEqual([LIMIT, 0]);
  await until("the service to count it", ofService, counted);
});

it("nginx counts open connections by pod and refusals by reason; the services count each once", async () => {
  await start();
  const before = await ofService();
  await open(LIMIT);
  expect([await refusal(), await refusal()]).toEqual(Array(2).fill("429 TOTAL_LIMIT_EXCEEDED"));
  const page = await until(
    "all connections and refusals to be counted",
    own,
    (seen) =>
      active(seen) === LIMIT &&
      refused(seen, "TOTAL_LIMIT_EXCEEDED") === 2 &&
      seen.value("websocket_acquire_seconds_count") === LIMIT + 2,
  );
  for (const pod of pods) {
    const labels = { upstream: "chat", pod: pod.address };
    expect(page.value("websocket_pod_connections", labels)).toBe(pod.live.size);
    expect(page.value("websocket_pod_limit", labels)).toBe(LIMIT);
  }
  expect(page.value("websocket_proxy_instance", { proxy_id: NODE })).toBe(LIMIT);
  expect(page.value("websocket_connections_rejected_total")).toBe(2);
  expect(page.value("websocket_acquire_seconds_count")).toBe(LIMIT + 2);
  expect(page.value("websocket_acquire_seconds_bucket", { le: "+Inf" })).toBe(LIMIT + 2);
  expect(page.sum("websocket_refusals_total")).toBe(2);
  const reported = await until(
    "a service to receive the counts",
    ofService,
    (seen) =>
      seen.value("websocket_proxy_instance", { proxy_id: NODE }) === LIMIT &&
      active(seen) === LIMIT &&
      // Sent in the same batches.
      asked(seen) - asked(before) === LIMIT + 2 &&
      seen.sum("websocket_pod_connections") === LIMIT,
  );
  for (const pod of pods) expect(reported.value("websocket_pod_connections", { pod: pod.address })).toBe(pod.live.size);
  expect(reported.sum("websocket_refusals_total") - before.sum("websocket_refusals_total")).toBe(2);
});

it("connections of a killed worker are not counted; those of old workers after a reload are, also on removed pods", async () => {
  await start();
  await open(LIMIT);
  await until("all connections to be counted", own, (page) => active(page) === LIMIT);
  const onPods = () => pods.reduce((sum, { live }) => sum + live.size, 0);
  const [one, other] = nginx.workers();
  process.kill(one!, "SIGKILL");
  await waitFor("a replacement worker", () => nginx.workers().length === 2 && !nginx.workers().includes(one!));
  await until("only connections of the other worker to be counted", own, (page) => active(page) === onPods());
  process.kill(other!, "SIGKILL");
  await until("no connections to be counted", own, (page) => active(page) === 0 && onPods() === 0);
  // The new worker releases the slots of those that were killed.
  await waitFor("their slots to be free", async () => (await slotMembers(redis, "global_conn")) === 0);
  await open(LIMIT / 2);
  await nginx.reload(yaml([pods[0]!]));
  await open(LIMIT / 2);
  const page = await until("connections of old and new workers to be counted", own, (seen) => active(seen) === LIMIT);
  for (const pod of pods) {
    expect(page.value("websocket_pod_connections", { upstream: "chat", pod: pod.address })).toBe(pod.live.size);
  }
  for (const { socket } of clients.splice(0)) socket.terminate();
  const empty = await until("no connections to be counted", own, (seen) => active(seen) === 0);
  expect(empty.value("websocket_pod_connections", { pod: pods[1]!.address }) ?? 0).toBe(0);
});

it("leases lost by the store are reclaimed, and new connections are refused meanwhile: on both pages", async () => {
  await start(1);
  const before = await ofService();
  await open(2);
  await until("both connections to be counted", own, (page) => active(page) === 2);
  // Held by an exiting worker; the new one has made no call yet.
  await nginx.reload();
  await redis.command("FLUSHALL");
  expect(await refusal()).toBe("503 store_unavailable");
  const holds = (page: ReadPage, from?: ReadPage) => {
    const since = (name: string) => (page.value(name) ?? 0) - (from?.value(name) ?? 0);
    const withoutStore =
      refused(page, "store_unavailable") - (from === undefined ? 0 : refused(from, "store_unavailable"));
    const leases = [since("websocket_leases_lost_total"), since("websocket_leases_reclaimed_total")];
    return leases.join() === "2,2" && withoutStore === 1;
  };
  await until("nginx to tell of it", own, (page) => holds(page));
  await until("a service to tell of it", ofService, (page) => holds(page, before));
});
