/**
 * Limits change while nginx and Envoy hold tokens of them and have nothing to report: they cut their leases at once, and Envoy
 * does not send without pause if services disagree.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { describeEnvoy } from "../../support/envoy-binary.js";
import { startEnvoy } from "../../support/envoy-process.js";
import { ADMIN_TOKEN, startGateway, startSmallBackend } from "../../support/gateway-process.js";
import { startNginx } from "../../support/nginx-process.js";
import { waitFor } from "../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

type Start = (yaml: string, services: string[]) => Promise<{ url: string; stop(): Promise<void> }>;

const yaml = (target: string) => `log: { level: warn }
lease: { report_interval_ms: 3600000 }
identity: { trusted_hops: [127.0.0.0/8] }
apps:
  default: { guaranteed: 100 }
  shop: { guaranteed: 20000, burst: 20000, profile: { based_on: iops, bandwidth: 0 } }
upstreams: { backend: { targets: ["${target}"] } }
routes: [{ path: /, upstream: backend }]
`;

async function startService() {
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const config = yaml(backend.target);
  const service = await startGateway(`store: embedded\nworkers: 1\n${config}`);
  endings.push(() => service.stop());
  return { config, service };
}

/** Two services in one: every other reply to a sync has another configuration version. */
async function startTurns(controlUrl: string) {
  let syncs = 0;
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const { host, connection, "content-length": length, ...headers } = incoming.headers;
    const { method = "GET", url = "/" } = incoming;
    const body = method === "GET" ? null : Buffer.concat(chunks);
    const reply = await fetch(controlUrl + url, { method, headers: headers as Record<string, string>, body });
    let text = await reply.text();
    if (url === "/v1/sync" && ++syncs % 2 === 0) text = text.replace(/^((?:\S+ ){5})\S+/, "$1other");
    response.writeHead(reply.status).end(text);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  endings.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, syncs: () => syncs };
}

async function takeTurns(start: Start): Promise<void> {
  const { config, service } = await startService();
  const turns = await startTurns(service.controlUrl);
  const plane = await start(config, [turns.address]);
  endings.push(() => plane.stop());
  const ask = async () => (await fetch(plane.url, { headers: { "x-app-id": "shop" } })).status;
  await waitFor("the first decision", async () => (await ask()) === 200);
  // An app in use keeps tokens in spite of a recall.
  const before = turns.syncs();
  const until = performance.now() + 2_000;
  while (performance.now() < until) await ask();
  expect(turns.syncs() - before).toBeGreaterThan(1);
  expect(turns.syncs() - before).toBeLessThan(200);
}

async function lowerLimit(start: Start): Promise<void> {
  const { config, service } = await startService();
  const plane = await start(config, [service.controlUrl.replace("http://", "")]);
  endings.push(() => plane.stop());
  const ask = async () => {
    const { status, headers } = await fetch(plane.url, { headers: { "x-app-id": "shop" } });
    return `${status} ${headers.get("ratelimit-policy")}`;
  };
  await waitFor("tokens", async () => (await ask()) === '200 "shop";q=20000;w=1;qu="tokens"');

  // So that the lease is large.
  for (let i = 0; i < 200; i++) await ask();

  const changed = await fetch(`${service.controlUrl}/admin/ratelimit/config`, {
    method: "PUT",
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json", "x-operator": "kim" },
    body: JSON.stringify({ config: { apps: { shop: { guaranteed: 0.01, burst: 20 } } } }),
  });
  expect(changed.status).toBe(200);
  // Too few requests to use up the old lease, or for a report because of what they use.
  const [withinMs, everyMs] = [10_000, 250];
  await waitFor("the new limit", async () => (await ask()).includes(";q=20;"), { withinMs, everyMs });
  await waitFor("a refusal", async () => (await ask()).startsWith("429"), { withinMs, everyMs });
}

const envoy: Start = (config, services) => startEnvoy(config, { services });

it("nginx cuts its lease when a limit is lowered", () =>
  lowerLimit((config, services) => startNginx(config, { services })));

describeEnvoy("Envoy", () => {
  it("cuts its lease when a limit is lowered", () => lowerLimit(envoy));
  it("sends few messages while services with different configurations reply in turn", () => takeTurns(envoy));
});
