/** Prometheus scrapes a running service: every metric can be queried, and promtool finds no problem. */
import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { metricList, metrics } from "../../../../src/service/metrics/catalog.js";
import { reasons } from "../../../../src/service/metrics/labels.js";
import { createTestAuthority } from "../../../support/certificates.js";
import { type GatewayProcess, startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { startBackend } from "../../../support/http-backend.js";
import { startNginx } from "../../../support/nginx-process.js";
import { freePort } from "../../../support/ports.js";
import { checkPage, type Prometheus, startPrometheus } from "../../../support/prometheus.js";
import { startRedis } from "../../../support/redis-server.js";
import { connectSocket, type SocketClient } from "../../../support/socket-clients.js";
import { startSocketPod } from "../../../support/socket-pods.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let gateway: GatewayProcess;
let prometheus: Prometheus;
const sockets: SocketClient[] = [];
/** Refused connections by reason. */
const refusedSockets: Record<string, number> = {};
/** Number of responses by "app method status". */
const answers: Record<string, number> = {};

async function ask(app: string, method = "GET"): Promise<void> {
  const { statusCode, body } = await request(gateway.url, { method: method as "GET", headers: { "x-app-id": app } });
  await body.dump();
  const key = `${app} ${method} ${statusCode}`;
  answers[key] = (answers[key] ?? 0) + 1;
}

/** A body of unknown length for which the tokens are not sufficient: it is aborted. */
async function upload(): Promise<void> {
  const body = Readable.from(Array.from({ length: 100 }, () => Buffer.alloc(65_536)));
  const sent = request(`${gateway.url}/upload`, { method: "PUT", body, headers: { "x-app-id": "upload" } });
  await sent.then((response) => response.body.dump()).catch(() => {});
}

beforeAll(async () => {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const reader = await startBackend((incoming, response) => {
    incoming.resume().on("end", () => response.end("read"));
  });
  endings.push(() => reader.stop());
  const pod = await startSocketPod(() => {});
  endings.push(() => pod.stop());
  // One burst and almost no refill during the test. `closed` admits nothing more when the store is too slow.
  const limits = "guaranteed: 0.001, burst: 40, on_store_failure: closed";
  const config = `
unknown_apps: reject
cluster: { shards: 2 }
apps: { video: { ${limits} }, audio: { ${limits}, dry_run: true }, upload: { ${limits}, unknown_length: cut }, chat: { ${limits} } }
upstreams:
  backend: { targets: ["${backend.target}"] }
  reader: { targets: ["127.0.0.1:${reader.port}"] }
  sockets: { targets: ["${pod.address}"] }
routes:
  - { path: /, upstream: backend }
  - { path: /upload, upstream: reader }
  - { path: /ws/, upstream: sockets, connections: { max_per_pod: 2 } }
log: { level: warn }
`;
  // Not for nginx, which cannot apply them.
  const byApp = "limits: [{ name: by-app, key: [app], rate: 1000/s }]\n";
  const authority = createTestAuthority();
  endings.push(authority.remove);
  const { cert, key } = authority.issue("service");
  const envoy = `envoy: { listen: "127.0.0.1:${await freePort()}", tls: { cert: ${cert}, key: ${key} } }\n`;
  gateway = await startGateway(`node_id: gw\nworkers: 2\nstore: ${redis.url}\n${config}${byApp}${envoy}`);
  endings.push(() => gateway.stop());
  // nginx gets no requests. The service must expose the metrics that nginx reports to it.
  const nginx = await startNginx(config, { services: [new URL(gateway.controlUrl).host], node: "edge" });
  endings.push(() => nginx.stop());
  for (let i = 0; i < 30; i++) await ask("video");
  for (let i = 0; i < 30; i++) await ask("audio", "PUT");
  for (let i = 0; i < 3; i++) await ask(`nobody-${i}`);
  await upload();
  await ask("video", "REPORT");
  await waitFor("two connections, and one too many", async () => {
    const socket = connectSocket(`${gateway.url}/ws/`, { "x-app-id": "chat" });
    const outcome = await socket.outcome;
    if (outcome.open) sockets.push(socket);
    else refusedSockets[outcome.reason] = (refusedSockets[outcome.reason] ?? 0) + 1;
    return sockets.length === 2 && refusedSockets.LIMIT_EXCEEDED !== undefined;
  });
  endings.push(() => {
    for (const { socket } of sockets) socket.terminate();
  });
  prometheus = await startPrometheus(new URL(gateway.controlUrl).host);
  endings.push(() => prometheus.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const one = async (expression: string) => (await prometheus.until(expression))[0]?.value;

describe("Prometheus", () => {
  it.each(metricList)("answers queries on %s", async (name, { type, labels }) => {
    const series = type === "histogram" ? `${name}_count` : name;
    const samples = await prometheus.until(series);
    for (const sample of samples) {
      const { __name__, instance, job, ...own } = sample.labels;
      expect([__name__, job]).toEqual([series, "tollgate"]);
      expect(Object.keys(own).sort()).toEqual([...labels].sort());
      expect(sample.value).not.toBeNaN();
    }
    // Prometheus reports the type untyped as unknown.
    expect((await prometheus.metadata(name))?.type).toBe(type === "untyped" ? "unknown" : type);
  });

  it("has the same counts as the clients, over all workers", async () => {
    const passed = answers["video GET 200"] ?? 0;
    const refused = (answers["video GET 429"] ?? 0) + (answers["video GET 503"] ?? 0);
    expect([passed > 0, refused > 0, passed + refused]).toEqual([true, true, 30]);
    expect(await one('ratelimit_requests_total{app_id="video",method="GET",status="allowed"}')).toBe(passed);
    expect(await one('ratelimit_requests_total{app_id="video",method="GET",status="rejected"}')).toBe(refused);
    expect(await one('ratelimit_request_cost_count{app_id="video",method="GET"}')).toBe(30);
    expect(await one('sum(ratelimit_check_latency_seconds_count{app_id="video"})')).toBe(31);
    expect(await one('ratelimit_requests_rejected_total{app_id="audio"}')).toBe(0);
    expect(
      await one('ratelimit_requests_total{app_id="audio",method="PUT",status="dry_run_rejected"}'),
    ).toBeGreaterThan(0);
    expect(
      await one('ratelimit_refusals_total{app_id="none",layer="identity",reason="unknown_app"}'),
    ).toBeGreaterThanOrEqual(3);
    expect(await one("websocket_connections_active_total")).toBe(2);
    expect(await one("sum(websocket_pod_connections)")).toBe(2);
    expect(await one("websocket_pod_limit")).toBe(2);
    for (const [reason, count] of Object.entries(refusedSockets)) {
      expect(await one(`websocket_refusals_total{reason="${reason}"}`)).toBe(count);
    }
    // Two workers and nginx are the nodes of the cluster.
    expect((await prometheus.until("ratelimit_live_nodes", ([nodes]) => nodes?.value === 3)).length).toBe(1);
  });

  it("has no app, method or reason beyond the configuration and the fixed lists", async () => {
    const values = async (label: string, names = "ratelimit_.+") =>
      (await prometheus.until(`count by (${label}) ({__name__=~"${names}",${label}!=""})`))
        .map(({ labels }) => labels[label])
        .sort();
    expect(await values("app_id")).toEqual(["audio", "chat", "none", "upload", "video"]);
    expect(await values("method")).toEqual(["GET", "OTHER", "PUT"]);
    expect(reasons).toEqual(expect.arrayContaining(await values("reason", "ratelimit_refusals_total")));
    expect(await values("node_id")).toEqual(["edge", "gw", "gw-1", "gw-2"]);
  });

  it("accepts every query of the documentation", async () => {
    const page = readFileSync(new URL("../../../../docs/METRICS.md", import.meta.url), "utf8");
    const rows = [...page.matchAll(/^\| .*\? \| (.*) \|$/gm)].map(([, queries]) => queries!);
    const queries = rows.flatMap((row) => [...row.matchAll(/`([^`]+)`/g)].map(([, query]) => query!));
    expect(queries.length).toBeGreaterThan(5);
    for (const query of queries) {
      expect(await prometheus.query(query), query).toBeInstanceOf(Array);
      // Prometheus returns an empty result for a metric that does not exist, so the names are checked, too.
      const names = query.match(/(ratelimit|websocket)_\w+/g) ?? [];
      for (const name of names) expect(Object.keys(metrics)).toContain(name.replace(/_bucket$/, ""));
    }
  });
});

describe("promtool", () => {
  it("finds no problem in the metrics page", async () => {
    const { statusCode, headers, body } = await request(`${gateway.controlUrl}/metrics`);
    expect([statusCode, headers["content-type"]]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8"]);
    expect(await checkPage(await body.text())).toEqual({ exitCode: 0, complaints: "" });
  });

  it("reports a problem in an invalid page", async () => {
    const { exitCode, complaints } = await checkPage("# TYPE bad_total gauge\nbad_total 1\n");
    expect(exitCode).not.toBe(0);
    expect(complaints).toMatch(/bad_total/);
  });
});
