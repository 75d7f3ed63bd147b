/**
 * Rules, dashboards and Alertmanager configuration with a running system: no alert fires while it is healthy, each fires when its
 * fault is injected, and every query of the dashboards has a result. All durations of the rules are divided by 30.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type AlertName, alertRules, alerts } from "../../build/monitoring/alerts.js";
import { SERVICE_JOB } from "../../build/monitoring/queries.js";
import { recordingRules } from "../../build/monitoring/recording-rules.js";
import { duration, ruleFile } from "../../build/monitoring/rules.js";
import { fromRoot } from "../../build/paths.js";
import { type Alertmanager, startAlertmanager } from "../support/alertmanager.js";
import { createTestAuthority } from "../support/certificates.js";
import { dashboardQueries } from "../support/dashboard-queries.js";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  PLANE_TOKEN,
  startGateway,
  startSmallBackend,
} from "../support/gateway-process.js";
import { startBackend } from "../support/http-backend.js";
import { type HttpLoad, startHttpLoad } from "../support/http-load.js";
import { startNginx } from "../support/nginx-process.js";
import { freePort } from "../support/ports.js";
import { type Prometheus, startPrometheus } from "../support/prometheus.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { connectSocket, type SocketClient } from "../support/socket-clients.js";
import { startSocketPod } from "../support/socket-pods.js";
import { pause, waitFor } from "../support/wait-for.js";

const TIMES_FASTER = 30;
const scaled = (seconds: number) => `${Math.ceil((seconds * 1000) / TIMES_FASTER)}ms`;
/** As long as the longest range and duration of the alerts, except that of certificates. */
const HEALTHY_MS = 65_000;

const endings: (() => unknown)[] = [];
const dir = mkdtempSync(join(tmpdir(), "tollgate-alerts-"));
const authority = createTestAuthority();
let redis: RedisServer;
let services: GatewayProcess[];
let prometheus: Prometheus;
let alertmanager: Alertmanager;
let common: string;
const fired = new Set<string>();

const hostOf = (url: string) => new URL(url).host;
/** Prometheus reads the file again by itself. */
function scrape(...targets: GatewayProcess[]): void {
  const list = targets.map(({ controlUrl }) => hostOf(controlUrl));
  writeFileSync(join(dir, "targets.json"), JSON.stringify([{ targets: list, labels: { cluster: "test" } }]));
}

async function admin(path: string, body: unknown): Promise<unknown> {
  const response = await request(`${services[0]!.controlUrl}/admin/ratelimit/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.body.json();
  expect(response.statusCode, JSON.stringify(answer)).toBe(200);
  return answer;
}

async function plane(path: string, body: unknown): Promise<{ allowed?: boolean }> {
  const response = await request(`${services[0]!.controlUrl}/v1/connections/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await response.body.json()) as { allowed?: boolean };
}

/** Waits until Prometheus has all of these firing. */
async function fires(...names: AlertName[]): Promise<void> {
  await waitFor(
    `${names.join(", ")} to fire`,
    async () => {
      const now = await prometheus.firing();
      if (!names.every((name) => now.includes(name))) throw new Error(`firing: ${now.join(", ")}`);
      return true;
    },
    { everyMs: 500, withinMs: 180_000 },
  );
  for (const name of names) fired.add(name);
}

const quiet = () =>
  waitFor(
    "no alert to fire",
    async () => {
      const now = await prometheus.firing();
      if (now.length > 0) throw new Error(`firing: ${now.join(", ")}`);
      return true;
    },
    { everyMs: 500, withinMs: 180_000 },
  );

/** A service of the same cluster with these options besides the common ones. */
const startService = (name: string, more = "", config = common) =>
  startGateway(`node_id: ${name}\nworkers: 1\nstore: ${redis.url}\n${config}${more}`);

const envoyListener = async (days: number) => {
  const until = new Date(Date.now() + days * 86_400_000);
  const { cert, key } = authority.issue(`valid-${days}`, { until });
  return `envoy: { listen: "127.0.0.1:${await freePort()}", tls: { cert: ${cert}, key: ${key} } }\n`;
};

let loads: HttpLoad[] = [];
const sockets: SocketClient[] = [];

beforeAll(async () => {
  endings.push(() => rmSync(dir, { recursive: true, force: true }), authority.remove);
  redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const reader = await startBackend((incoming, response) => {
    incoming.resume().on("end", () => response.end("read"));
  });
  endings.push(() => reader.stop());
  const pod = await startSocketPod(() => {});
  endings.push(() => pod.stop());
  const plenty = "guaranteed: 10000, burst: 20000";
  common = `
cluster: { shards: 2, node_ttl_ms: 3000, reconcile_interval_ms: 10000 }
apps:
  video: { ${plenty} }
  small: { guaranteed: 1, burst: 2 }
  upload: { guaranteed: 0.001, burst: 40, unknown_length: cut }
  trial: { guaranteed: 0.001, burst: 2, dry_run: true }
  chat: { ${plenty} }
upstreams:
  backend: { targets: ["${backend.target}"] }
  reader: { targets: ["127.0.0.1:${reader.port}"] }
  sockets: { targets: ["${pod.address}"] }
routes:
  - { path: /, upstream: backend }
  - { path: /upload, upstream: reader }
  - { path: /ws/, upstream: sockets, connections: { max_per_pod: 4, lease_s: 3 } }
log: { level: warn }
`;
  const limits = "limits: [{ name: by-app, key: [app], rate: 100000/s }]\n";
  services = await Promise.all([
    startService("gw-a", limits + (await envoyListener(90))),
    startService("gw-b", limits + (await envoyListener(60))),
  ]);
  for (const service of services) endings.push(() => service.stop());
  alertmanager = await startAlertmanager(await readFile(fromRoot("monitoring/alertmanager/alertmanager.yml"), "utf8"));
  endings.push(() => alertmanager.stop());
  scrape(...services);
  writeFileSync(join(dir, "recording.yml"), ruleFile(recordingRules(scaled)));
  writeFileSync(join(dir, "alerts.yml"), ruleFile(alertRules(scaled)));
  prometheus = await startPrometheus({
    config: `
# Without the store, a page takes a second.
global: { scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s }
rule_files: ["${dir}/*.yml"]
alerting: { alertmanagers: [{ static_configs: [{ targets: ["${alertmanager.address}"] }] }] }
scrape_configs:
  - { job_name: ${SERVICE_JOB}, file_sd_configs: [{ files: ["${dir}/targets.json"], refresh_interval: 1s }] }
`,
  });
  endings.push(() => prometheus.stop());
  loads = services.map(({ url }) => startHttpLoad(`${url}/?bytes=70000`, "video", 10));
  for (let i = 0; i < 2; i++) {
    const client = connectSocket(`${services[i]!.url}/ws/`, { "x-app-id": "chat" });
    expect((await client.outcome).open).toBe(true);
    sockets.push(client);
  }
});
afterEach(() => {
  for (const { socket } of sockets.splice(2)) socket.terminate();
});
afterAll(async () => {
  await Promise.all(loads.map((load) => load.stop()));
  for (const { socket } of sockets) socket.terminate();
  for (const end of endings.splice(0).reverse()) await end();
});

describe("a healthy system under load", () => {
  it("has no alert", async () => {
    const seen = new Set<string>();
    for (const until = performance.now() + HEALTHY_MS; performance.now() < until; await pause(1_000)) {
      for (const name of await prometheus.firing()) seen.add(name);
    }
    expect([[...seen], alertmanager.delivered]).toEqual([[], []]);
  });

  it("has a result for every query of the dashboards", async () => {
    // Its configuration has no limits, so it differs from that of the services.
    const nginx = await startNginx(common, { services: [hostOf(services[0]!.controlUrl)], node: "edge" });
    endings.push(() => nginx.stop());
    loads.push(startHttpLoad(`${nginx.url}/`, "video", 10));
    const ask = async (app: string, method: "GET" | "PUT", body?: Readable) => {
      const path = method === "PUT" ? "/upload" : "/";
      const sent = request(services[0]!.url + path, { method, headers: { "x-app-id": app }, body: body ?? null });
      await sent.then((response) => response.body.dump()).catch(() => {});
    };
    await ask("upload", "PUT", Readable.from(Array.from({ length: 100 }, () => Buffer.alloc(65_536))));
    for (let i = 0; i < 5; i++) await Promise.all([ask("small", "GET"), ask("trial", "GET")]);
    await admin("reconcile", {});
    // A second scrape after these, so that they are part of a rate.
    const queries = dashboardQueries("1m");
    await waitFor(
      "results",
      async () => {
        const client = connectSocket(`${services[0]!.url}/ws/`, { "x-app-id": "chat" });
        await client.outcome;
        client.socket.terminate();
        const without: string[] = [];
        for (const { dashboard, title, query } of queries) {
          const samples = await prometheus.query(query);
          if (samples.every(({ value }) => Number.isNaN(value))) without.push(`${dashboard}, ${title}: ${query}`);
        }
        if (without.length > 0) throw new Error(`no result:\n${without.join("\n")}`);
        return true;
      },
      { everyMs: 2_000, withinMs: 60_000 },
    );
    expect(queries.length).toBeGreaterThan(50);
    await fires("TollgateConfigMismatch");
    await loads.pop()!.stop();
    await nginx.stop();
    console.log(`${queries.length} queries of the dashboards have results`);
  });
});

describe("an alert fires when", () => {
  it("an emergency is active", async () => {
    await admin("emergency", { action: "activate", duration_seconds: 600, reason: "test" });
    await fires("TollgateEmergency");
    await admin("emergency", { action: "deactivate", reason: "test" });
  });

  it("a bucket was changed by something else", async () => {
    const [key] = (await redis.command("KEYS", "ratelimit:{*}:app:chat")) as string[];
    // The ledgers of the nodes know nothing of these tokens.
    await redis.command("HINCRBY", key!, "granted", 15_000);
    expect(await admin("reconcile", { app_id: "chat" })).toMatchObject({ corrections_made: 1 });
    await fires("TollgateDrift");
  });

  it("slots of open connections disappear from the store", async () => {
    const keys = (await redis.command("KEYS", "ws:{*}:*_conn*")) as string[];
    await redis.command("DEL", ...keys);
    await fires("TollgateConnectionLeasesLost");
  });

  it("connections are refused because pods are full", async () => {
    const deadline = fires("TollgateConnectionLimitReached");
    let isOver = false;
    void deadline.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      const client = connectSocket(`${services[0]!.url}/ws/`, { "x-app-id": "chat" });
      sockets.push(client);
      await client.outcome;
      await pause(300);
    }
    await deadline;
  });

  it("slots are renewed without connections", async () => {
    await waitFor("free slots", async () => (await prometheus.query("sum(websocket_pod_slots)"))[0]?.value === 4);
    const slot = { connection: "leak-1", app: "chat", route: "/ws/" };
    const pods = (await prometheus.query("websocket_pod_limit")).map(({ labels }) => labels.pod!);
    const [pod = ""] = pods;
    await waitFor("a slot", async () => (await plane("acquire", { proxy: "leaky", ...slot, pod })).allowed === true);
    const timer = setInterval(() => {
      void plane("renew", { proxy: "leaky", route: "/ws/", connections: [{ connection: "leak-1", app: "chat", pod }] });
    }, 500);
    try {
      await fires("TollgateSlotsLeaked");
    } finally {
      clearInterval(timer);
    }
  });

  it("a reload is refused", async () => {
    const { file } = services[1]!;
    const text = await readFile(file, "utf8");
    writeFileSync(file, `${text}\nno_such_option: 1\n`);
    await fires("TollgateReloadRefused");
    writeFileSync(file, text);
  });

  it("most requests are refused", async () => {
    const load = startHttpLoad(services[0]!.url, "small", 100);
    await fires("TollgateRefusalsUnusual");
    await load.stop();
  });

  it("services differ, are overloaded, or have a certificate that expires", async () => {
    const listener = await envoyListener(1);
    const more = `${listener}overload: { memory_mb: 20 }\nlimits: [{ name: other, key: [app], rate: 1/s }]\n`;
    const odd = await startService("odd", more);
    endings.push(() => odd.stop());
    scrape(...services, odd);
    await fires("TollgateConfigMismatch", "TollgateOverload", "TollgateCertificateExpiresNow");
    await fires("TollgateCertificateExpiresSoon");
    scrape(...services);
    await odd.stop();
  });

  it("a service is killed", async () => {
    const victim = await startService("victim");
    endings.push(() => victim.stop());
    scrape(...services, victim);
    await waitFor("its metrics", async () => (await prometheus.query("up == 1")).length === 3);
    // It holds tokens when it dies.
    const load = startHttpLoad(victim.url, "video", 10);
    await waitFor("a request to pass", () => load.answers.some(({ status }) => status === 200));
    victim.killAll();
    await load.stop();
    await fires("TollgateTargetDown", "TollgateNodesUnresponsive");
    scrape(...services);
  });

  it("the store hangs; alerts that follow from it are not delivered", async () => {
    await quiet();
    const before = alertmanager.delivered.length;
    redis.pause();
    try {
      await fires("TollgateStoreUnavailable", "TollgateDegraded", "TollgateStoreErrors");
      await waitFor("its delivery", () =>
        alertmanager.delivered.slice(before).some(({ alertname }) => alertname === "TollgateStoreUnavailable"),
      );
      const delivered = alertmanager.delivered.slice(before).map(({ alertname }) => alertname);
      expect(delivered).not.toContain("TollgateStoreErrors");
    } finally {
      redis.resume();
    }
  });
});

describe("after all faults", () => {
  it("every alert has fired, and Alertmanager has delivered it to the receiver of its severity", async () => {
    const all = alerts(duration);
    expect([...fired].sort()).toEqual(Object.keys(all).sort());
    const inhibited = ["TollgateStoreErrors", "TollgateDegraded", "TollgateCertificateExpiresSoon"];
    const got = new Set(alertmanager.delivered.map(({ alertname }) => alertname));
    expect(Object.keys(all).filter((name) => !got.has(name) && !inhibited.includes(name))).toEqual([]);
    for (const { severity, receiver } of alertmanager.delivered) expect(receiver).toBe(`tollgate-${severity}`);
  });

  it("no alert fires any more", quiet);
});
