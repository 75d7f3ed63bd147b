/** A limit is lowered while nginx and Envoy hold tokens of it and have nothing to report: they cut their leases at once. */
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

async function lowerLimit(start: Start): Promise<void> {
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = `log: { level: warn }
lease: { report_interval_ms: 3600000 }
identity: { trusted_hops: [127.0.0.0/8] }
apps:
  default: { guaranteed: 100 }
  shop: { guaranteed: 20000, burst: 20000, profile: { based_on: iops, bandwidth: 0 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const service = await startGateway(`store: embedded\nworkers: 1\n${yaml}`);
  endings.push(() => service.stop());
  const plane = await start(yaml, [service.controlUrl.replace("http://", "")]);
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

it("nginx cuts its lease when a limit is lowered", () =>
  lowerLimit((yaml, services) => startNginx(yaml, { services })));

describeEnvoy("Envoy", () => {
  it("cuts its lease when a limit is lowered", () => lowerLimit((yaml, services) => startEnvoy(yaml, { services })));
});
