/** What a viewer of the dashboard costs the service, and how the page copes with 10,000 apps and 500 nodes. */
import { setTimeout as delay } from "node:timers/promises";
import type { Page } from "playwright-core";
import { Agent, request } from "undici";
import { openDashboard, signIn, startBrowser } from "../test/support/browser.js";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  PLANE_TOKEN,
  startGateway,
  startSmallBackend,
  workersOf,
} from "../test/support/gateway-process.js";
import { startRedis } from "../test/support/redis-server.js";
import { below, noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";
import { cpuNs } from "./support/cpu-time.js";

interface Size {
  name: string;
  apps: number;
  nodes: number;
}

const sizes: readonly Size[] = [
  { name: "", apps: 10, nodes: 5 },
  { name: "-10000-apps-500-nodes", apps: 10_000, nodes: 500 },
];
const SECONDS = 6;
const ROUNDS = 3;
const REQUESTS_PER_SECOND = 50;

const yaml = ({ apps }: Size, store: string, target: string) => `
node_id: gw
store: ${store}
workers: 1
log: { level: error }
# Nodes that were registered once stay alive for the whole run.
cluster: { id: bench, node_ttl_ms: 3600000 }
apps:
  default: { guaranteed: 1000, burst: 1000 }
${Array.from({ length: apps }, (_, i) => `  app-${i}: { guaranteed: 100, burst: 200 }`).join("\n")}
limits: [{ name: per-user, key: [user], rate: 1000/s }]
upstreams: { web: { targets: ["${target}"] } }
routes: [{ path: /, upstream: web }]
`;

/** Each node holds tokens of 20 apps. */
async function registerNodes({ controlUrl }: GatewayProcess, { apps, nodes }: Size, agent: Agent): Promise<void> {
  for (let node = 0; node < nodes; node++) {
    const listed = Array.from({ length: Math.min(20, apps) }, (_, i) => ({
      ...{ app: `app-${(node * 20 + i) % apps}`, granted: 0, spent: 0, need: 1, want: 5 },
    }));
    const { body, statusCode } = await request(`${controlUrl}/v1/sync`, {
      method: "POST",
      dispatcher: agent,
      headers: { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify({ node: `nginx-${node}`, epoch: 1, seq: 1, apps: listed }),
    });
    await body.dump();
    if (statusCode !== 200) throw new Error(`sync replied ${statusCode}`);
  }
}

/** Light traffic over all apps, in the background. */
function startTraffic({ url }: GatewayProcess, { apps }: Size, agent: Agent) {
  let sent = 0;
  const timer = setInterval(() => {
    const headers = { "x-app-id": `app-${(sent++ * 7) % apps}` };
    request(`${url}/x`, { headers, dispatcher: agent }).then(
      ({ body }) => body.dump(),
      () => undefined,
    );
  }, 1000 / REQUESTS_PER_SECOND);
  return () => clearInterval(timer);
}

const authorization = { authorization: `Bearer ${ADMIN_TOKEN}` };

/** Opens a view as the page does. Returns the bytes received per second. */
async function watch({ controlUrl }: GatewayProcess, view: string, agent: Agent): Promise<number> {
  const ended = AbortSignal.timeout(SECONDS * 1000);
  let bytes = 0;
  const polled = ["apps", "limits"].includes(view) ? poll() : Promise.resolve();
  try {
    const url = `${controlUrl}/dashboard/events?view=${encodeURIComponent(view === "limits" ? "overview" : view)}`;
    const { body } = await request(url, { headers: authorization, dispatcher: agent, signal: ended });
    for await (const chunk of body) bytes += (chunk as Buffer).length;
  } catch (error) {
    if (!ended.aborted) throw error;
  }
  await polled;
  return bytes / SECONDS;

  async function poll(): Promise<void> {
    const path = view === "apps" ? "apps?sort=requests&limit=50" : "limits";
    const everyMs = view === "apps" ? 2_000 : 5_000;
    while (!ended.aborted) {
      const { body } = await request(`${controlUrl}/admin/ratelimit/${path}`, {
        headers: authorization,
        dispatcher: agent,
      });
      bytes += (await body.text()).length;
      await delay(everyMs, undefined, { signal: ended }).catch(() => undefined);
    }
  }
}

async function cpuShare(pids: () => number[], run: () => Promise<unknown>): Promise<number> {
  const [cpu, started] = [cpuNs(pids()), performance.now()];
  await run();
  return (cpuNs(pids()) - cpu) / 1e6 / (performance.now() - started);
}

async function viewers(gateway: GatewayProcess, size: Size, agent: Agent): Promise<Result[]> {
  const results: Result[] = [];
  const pids = () => [gateway.pid, ...workersOf(gateway.pid)];
  const idle: number[] = [];
  for (const view of ["overview", "flow", "apps", "app/app-1", "limits", "connections", "nodes"]) {
    let bytes = 0;
    const rounds = await alternate(
      ROUNDS,
      () => cpuShare(pids, async () => (bytes = await watch(gateway, view, agent))),
      () => cpuShare(pids, () => delay(SECONDS * 1000)),
    );
    idle.push(...rounds.map(([, without]) => without));
    const name = `dashboard-${view.replace(/\/.*/, "")}${size.name}`;
    const cost = median(rounds.map(([watched, without]) => watched - without)) * 100;
    // The budget is for a usual size; with many apps and nodes it is only reported.
    const budget = size.name === "" ? below(1) : noBudget;
    results.push(result(name, cost, "% of a core per viewer, service and workers", budget));
    results.push(result(`${name}-bytes`, bytes, "bytes/s to the viewer", noBudget));
  }
  results.push(
    result(
      `dashboard-nobody${size.name}`,
      median(idle) * 100,
      `% of a core at ${REQUESTS_PER_SECOND} requests/s`,
      noBudget,
    ),
  );
  return results;
}

/** Without viewers and requests: an upper bound for what the charts cost, which record a sample every 5 seconds. */
async function idle(gateway: GatewayProcess, size: Size): Promise<Result> {
  const pids = () => [gateway.pid, ...workersOf(gateway.pid)];
  await delay(SECONDS * 1000);
  const share = await cpuShare(pids, () => delay(3 * SECONDS * 1000));
  return result(
    `dashboard-idle${size.name}`,
    share * 100,
    "% of a core without requests and viewers, all work",
    noBudget,
  );
}

/** In Chromium: until rows are shown, elements in the page, and its own CPU while it is open. */
async function inBrowser(gateway: GatewayProcess, size: Size): Promise<Result[]> {
  const browser = await startBrowser();
  const results: Result[] = [];
  try {
    const { page } = await openDashboard(browser, gateway.controlUrl, 1920);
    await signIn(page, ADMIN_TOKEN);
    await page.getByText("Live").first().waitFor();
    for (const [view, ready] of [
      ["overview", ".tiles"],
      ["flow", "main svg"],
      ["apps", "tbody tr"],
      ["apps/app-1", ".why"],
      ["nodes", "tbody tr"],
      ["config", "tbody tr"],
    ] as const) {
      const started = performance.now();
      await page.goto(`${gateway.controlUrl}/#/${view}`);
      await page
        .locator(`main ${ready.replace("main ", "")}`)
        .first()
        .waitFor();
      const name = `dashboard-page-${view.replace("/app-1", "-one")}${size.name}`;
      results.push(result(`${name}-ms`, performance.now() - started, "ms until the view shows data", noBudget));
      results.push(result(`${name}-elements`, await elements(page), "elements in the page", noBudget));
      results.push(result(`${name}-cpu`, await taskShare(page), "% of a core in the page", noBudget));
    }
  } finally {
    await browser.close();
  }
  return results;
}

const elements = (page: Page) => page.evaluate<number>("document.querySelectorAll('*').length");

async function taskShare(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const seconds = async () =>
    (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0;
  const before = await seconds();
  await delay(5_000);
  const after = await seconds();
  await session.detach();
  return ((after - before) / 5) * 100;
}

export async function dashboard(): Promise<Result[]> {
  const results: Result[] = [];
  const agent = new Agent({ connections: 20 });
  for (const size of sizes) {
    const [redis, backend] = await Promise.all([startRedis(), startSmallBackend()]);
    const gateway = await startGateway(yaml(size, redis.url, backend.target), { built: true });
    let stopTraffic = () => {};
    try {
      await registerNodes(gateway, size, agent);
      results.push(await idle(gateway, size));
      stopTraffic = startTraffic(gateway, size, agent);
      results.push(...(await viewers(gateway, size, agent)), ...(await inBrowser(gateway, size)));
    } finally {
      stopTraffic();
      await gateway.stop();
      await Promise.all([redis.stop(), backend.stop()]);
    }
  }
  await agent.destroy();
  return results;
}
