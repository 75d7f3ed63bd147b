/** Metrics are pushed by a running service to StatsD over UDP and to Graphite over TCP; unavailable ones affect nothing. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GatewayProcess, startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { freePort } from "../../../support/ports.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let gateway: GatewayProcess;
const plain: string[] = [];
const tagged: string[] = [];
const dotted: string[] = [];
const withTags: string[] = [];

async function startStatsd(lines: string[]): Promise<number> {
  const socket = createSocket("udp4");
  socket.on("message", (datagram) => {
    expect(datagram.length).toBeLessThanOrEqual(1_432);
    lines.push(...datagram.toString().split("\n"));
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  endings.push(() => socket.close());
  return socket.address().port;
}

async function startGraphite(lines: string[]): Promise<number> {
  const server = createServer((socket) => {
    let text = "";
    socket.on("data", (data) => {
      text += data;
    });
    socket.on("end", () => {
      expect(text.endsWith("\n")).toBe(true);
      lines.push(...text.trimEnd().split("\n"));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  endings.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Sends requests until some were admitted and some refused. */
async function ask(count: number): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  for (let i = 0; i < count; i++) {
    const { statusCode, body } = await request(gateway.url, { headers: { "x-app-id": "video" } });
    await body.dump();
    statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
  }
  return statuses;
}

beforeAll(async () => {
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const urls = [
    `statsd://127.0.0.1:${await startStatsd(plain)}?prefix=prod`,
    `graphite://127.0.0.1:${await startGraphite(dotted)}?prefix=prod.`,
    `graphite://127.0.0.1:${await startGraphite(withTags)}?tags=true`,
    `statsd://127.0.0.1:${await startStatsd(tagged)}?tags=true`,
  ];
  gateway = await startGateway(`
node_id: gw
workers: 2
metrics: { push: [${urls.map((url) => `"${url}"`).join(", ")}], push_interval_ms: 1000 }
apps: { video: { guaranteed: 0.001, burst: 40 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
  endings.push(() => gateway.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** The sum of all values of a counter that StatsD got. */
const statsdSum = (lines: string[], start: string) =>
  lines
    .filter((line) => line.startsWith(`${start}:`))
    .reduce((sum, line) => sum + Number.parseFloat(line.slice(start.length + 1)), 0);
const graphiteValue = (lines: string[], name: string) =>
  lines.findLast((line) => line.startsWith(`${name} `))?.split(" ")[1];

describe("pushed metrics", () => {
  it("have the counts of the clients, in each format", async () => {
    const { 200: passed = 0, 429: refused = 0 } = await ask(30);
    expect([passed > 0, refused > 0, passed + refused]).toEqual([true, true, 30]);
    await waitFor("all pushes", () => {
      expect(statsdSum(plain, "prod.ratelimit_requests_total.video.GET.allowed")).toBe(passed);
      expect(statsdSum(plain, "prod.ratelimit_requests_total.video.GET.rejected")).toBe(refused);
      expect(graphiteValue(dotted, "prod.ratelimit_requests_total.video.GET.rejected")).toBe(String(refused));
      expect(graphiteValue(withTags, "ratelimit_requests_total;app_id=video;method=GET;status=allowed")).toBe(
        String(passed),
      );
      return true;
    });
    const growth = tagged.filter((line) => /^ratelimit_requests_allowed_total:\d+\|c\|#app_id:video$/.test(line));
    expect(growth.reduce((sum, line) => sum + Number.parseInt(line.split(":")[1]!, 10), 0)).toBe(passed);
  });

  it("have gauges, and histograms as counts, sums and quantiles", async () => {
    await waitFor("gauges", () => plain.some((line) => line.startsWith("prod.ratelimit_degradation_level.gw-1:0|g")));
    expect(plain.some((line) => /^prod\.ratelimit_request_cost_p99\.video\.GET:[\d.]+\|g$/.test(line))).toBe(true);
    expect(statsdSum(plain, "prod.ratelimit_request_cost_count.video.GET")).toBe(30);
    const now = Date.now() / 1000;
    for (const line of dotted) {
      const [, name, value, time] = /^(\S+) (-?[\d.]+) (\d+)$/.exec(line) ?? [];
      expect(name, line).toMatch(/^prod\.[a-z0-9_]+(\.[A-Za-z0-9_-]+)*$/);
      expect(Number(value), line).not.toBeNaN();
      expect(Math.abs(Number(time) - now), line).toBeLessThan(300);
    }
    for (const line of [...plain, ...tagged]) expect(line).toMatch(/^[A-Za-z0-9_.-]+:-?[\d.]+\|[cg](\|#\S+)?$/);
  });
});

describe("an unavailable destination", () => {
  it("is logged once and counted, and requests are answered", async () => {
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    // A server that accepts and never reads, a port that nobody listens on, and a name that does not exist.
    const silent = createServer((socket) => socket.pause());
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    endings.push(() => silent.close());
    const { port } = silent.address() as AddressInfo;
    const alone = await startGateway(`
workers: 1
metrics:
  push: ["graphite://127.0.0.1:${await freePort()}", "statsd://no-such-host.invalid:8125", "graphite://127.0.0.1:${port}"]
  push_interval_ms: 1000
apps: { default: { guaranteed: 100000, burst: 100000 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
    endings.push(() => alone.stop());
    const failures = async (exporter: string) => {
      const page = await (await request(`${alone.controlUrl}/metrics`)).body.text();
      return Number(new RegExp(`ratelimit_export_failures_total\\{exporter="${exporter}"\\} (\\d+)`).exec(page)?.[1]);
    };
    await waitFor("failures", async () => (await failures("graphite")) >= 2 && (await failures("statsd")) >= 2);
    for (let i = 0; i < 50; i++) {
      const { statusCode, body } = await request(alone.url);
      await body.dump();
      expect(statusCode).toBe(200);
    }
    const logged = alone.output().split("metrics could not be pushed").length - 1;
    // One line per destination; the silent one may not have failed yet.
    expect(logged).toBeGreaterThanOrEqual(2);
    expect(logged).toBeLessThanOrEqual(3);
  });
});
