/** Pushed metrics arrive at Graphite's carbon, directly and through StatsD. */
import { request } from "undici";
import { afterAll, expect, it } from "vitest";
import { startGateway, startSmallBackend } from "../support/gateway-process.js";
import { startGraphite, startStatsd } from "../support/graphite.js";
import { waitFor } from "../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

it("Graphite and StatsD get the metrics with the counts of the clients", async () => {
  const graphite = await startGraphite();
  endings.push(() => graphite.stop());
  const statsd = await startStatsd(graphite);
  endings.push(() => statsd.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const push = `"statsd://127.0.0.1:${statsd.port}?prefix=by-statsd", "graphite://127.0.0.1:${graphite.port}?prefix=direct"`;
  const gateway = await startGateway(`
node_id: gw
workers: 1
lease: { timeout_ms: 10000 }
metrics: { push: [${push}], push_interval_ms: 1000 }
apps: { small: { guaranteed: 0.001, burst: 2 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
  endings.push(() => gateway.stop());
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) {
    const { statusCode, body } = await request(gateway.url, { headers: { "x-app-id": "small" } });
    await body.dump();
    statuses.push(statusCode);
  }
  // On a busy machine the store may seem unavailable: 503.
  const refused = statuses.filter((status) => status !== 200).length;
  expect(refused).toBeGreaterThan(0);
  const counter = "ratelimit_requests_total.small.GET.rejected";
  await waitFor("Graphite", () => graphite.values(`direct.${counter}`).at(-1) === refused, { everyMs: 500 });
  await waitFor(
    "StatsD, which sends what was added since its last flush",
    () => graphite.values(`stats.counters.by-statsd.${counter}.count`).reduce((sum, one) => sum + one, 0) === refused,
    { everyMs: 500 },
  );
  expect(graphite.values("stats.gauges.by-statsd.ratelimit_degradation_level.gw-1").length).toBeGreaterThan(0);
});
