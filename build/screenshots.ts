/**
 * `make screenshots`: takes the screenshots of the dashboard in docs/images again, each view in light and dark, on a phone and
 * on a wide screen, from a gateway, an nginx and an Envoy on one Redis, with traffic and WebSockets. Takes about ten minutes; the names of
 * views select some. Other programs should not use much CPU: the charts show how slow they make this.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { request } from "undici";
import { WebSocket } from "ws";
import { startDemoBackend } from "../src/service/process/demo-backend.js";
import { startDemoTraffic } from "../src/service/process/demo-traffic.js";
import { signIn, startBrowser } from "../test/support/browser.js";
import { envoyPlane, startEnvoy } from "../test/support/envoy-process.js";
import { type GatewayProcess, PLANE_TOKEN, startGateway } from "../test/support/gateway-process.js";
import { nginxPlane, startNginx } from "../test/support/nginx-process.js";
import { freePort } from "../test/support/ports.js";
import { startRedis } from "../test/support/redis-server.js";
import { waitFor } from "../test/support/wait-for.js";
import { startWebSocketBackend, type WebSocketBackend } from "../test/support/ws-backend.js";
import { fromRoot } from "./paths.js";

const IMAGES = fromRoot("docs/images");
/** So that the charts, which then show five minutes, are full. */
const WARM_UP_MS = 280_000;
/** Of WebP, from 0 to 100. */
const QUALITY = 50;
const TOKEN = "token-of-anna-for-the-screenshots";

interface View {
  name: string;
  route: string;
  /** The tab to open. */
  tab?: string;
  prepare?(page: Page, gateway: GatewayProcess): Promise<void>;
}

const allViews: readonly View[] = [
  { name: "overview", route: "overview" },
  { name: "flow", route: "flow" },
  { name: "apps", route: "apps" },
  // An app's balance is recorded while its page is open.
  { name: "app", route: "apps/reports", prepare: () => delay(20_000) },
  { name: "limits", route: "limits" },
  { name: "limit", route: "limits/per-user" },
  { name: "connections", route: "connections" },
  { name: "nodes", route: "nodes" },
  { name: "config", route: "config" },
  { name: "changes", route: "config", tab: "Changes" },
  { name: "what-if", route: "config", tab: "What if", prepare: compare },
  { name: "actions", route: "actions" },
];
const only = process.argv.slice(2);
const views = allViews.filter(({ name }) => only.length === 0 || only.includes(name));
const widths = [
  [380, 800],
  [1920, 1080],
] as const;

/** `reports` reaches its limit from time to time. */
const REPORTS_RATE = 60;

const apps = (reports: number) => `
apps:
  default: { guaranteed: 100, burst: 200 }
  checkout: { guaranteed: 100, burst: 200, priority: 0 }
  search: { guaranteed: 160, burst: 320 }
  mobile: { guaranteed: 60, burst: 150, borrow: true }
  reports: { guaranteed: ${reports}, burst: 120, priority: 3 }
  import: { guaranteed: 40, burst: 100, priority: 2 }
`;

const common = (target: string, pods: WebSocketBackend[]) => `
cluster: { id: eu-1, capacity: 5000, rate: 600 }
limits:
  - { name: per-user, key: [user], rate: 100/min, match: { path: [/account] } }
  - { name: searches, key: [app, ip], rate: 6000/min, match: { path: [/api/hello] } }
  - { name: uploads, key: [app], rate: 3000/min, count: cost, dry_run: true, match: { method: [PUT, POST] } }
upstreams:
  web: { targets: ["${target}"] }
  live: { targets: [${pods.map((pod) => `"${pod.target}"`).join(", ")}] }
  feed: { targets: [${pods
    .slice(0, 4)
    .map((pod) => `"${pod.target}"`)
    .join(", ")}] }
routes:
  - { path: /, upstream: web }
  - { path: /live/, upstream: live, connections: { max_per_pod: ${LIVE_SLOTS} } }
  - { path: /feed/, upstream: feed, connections: { max_per_pod: 8 } }
`;

const LIVE_SLOTS = 12;
/** So many sockets of each pod are closed again: one pod is full, and others have free slots. */
const CLOSED = [0, 2, 4, 6, 7, 9];

async function openSockets(url: string, path: string, count: number): Promise<WebSocket[]> {
  const headers = { "x-app-id": "mobile" };
  const sockets = Array.from(
    { length: count },
    () => new WebSocket(`${url.replace("http", "ws")}${path}`, { headers }),
  );
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<void>((resolve) => {
          socket.once("open", resolve);
          socket.on("error", () => resolve());
        }),
    ),
  );
  return sockets;
}

/** Users who send different numbers of requests, so that some of them reach a limit. */
function startUsers(url: string): () => void {
  const users = ["ann", "ben", "cay", "dora", "emil", "fay"];
  let turn = 0;
  const timer = setInterval(() => {
    turn++;
    for (const [i, user] of users.entries()) {
      if (turn % (i + 1) !== 0) continue;
      request(`${url}/account`, { headers: { "x-app-id": "search", "x-user-id": user } }).then(
        ({ body }) => body.dump(),
        () => undefined,
      );
    }
  }, 500);
  return () => clearInterval(timer);
}

async function order({ controlUrl }: GatewayProcess, path: string, order: object): Promise<void> {
  const { body, statusCode } = await request(`${controlUrl}/admin/ratelimit/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(order),
  });
  const reply = await body.text();
  if (statusCode !== 200) throw new Error(`${path}: ${statusCode} ${reply}`);
}

/** For the list of changes. */
async function someChanges(gateway: GatewayProcess): Promise<void> {
  await order(gateway, "reload", { reason: "higher limit for checkout" });
  await order(gateway, "reconcile", { force: true, reason: "after the restart of nginx" });
  await order(gateway, "limits/per-user/top-up", { value: "ben", amount: 20, reason: "support case 4711" });
  await order(gateway, "borrow", { app_id: "mobile", amount: 20, reason: "campaign starts at noon" });
}

/** What a lower limit of an app would do. */
async function compare(page: Page, { file }: GatewayProcess): Promise<void> {
  const [before = "", after = ""] = readFileSync(file, "utf8").split(apps(REPORTS_RATE));
  // Apps first: that is the part which can be seen.
  const field = page.getByLabel("Configuration in YAML");
  await field.fill(apps(REPORTS_RATE / 6).trimStart() + after + before);
  await field.evaluate((element) => element.scrollTo(0, 0));
  const result = page.getByRole("heading", { name: "Replay" });
  // Only one comparison runs at a time, for all pages.
  while (!(await result.isVisible())) {
    const compare = page.getByRole("button", { name: "Compare" });
    if (await compare.isEnabled({ timeout: 1_000 }).catch(() => false)) await compare.click();
    await delay(1_000);
  }
  await result.scrollIntoViewIfNeeded();
}

async function capture(page: Page, file: string): Promise<number> {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  await session.detach();
  const image = Buffer.from(data, "base64");
  writeFileSync(`${IMAGES}/${file}`, image);
  return image.length;
}

/** The store seems slow while other programs use the processors. The level is then pinned, which the page shows under Actions. */
async function untilNormal(page: Page, gateway: GatewayProcess): Promise<void> {
  const normal = page.getByText("Normal", { exact: true });
  try {
    await normal.waitFor({ timeout: 60_000 });
  } catch {
    console.log("this machine is busy: the degradation level is pinned");
    await order(gateway, "degradation", { level: 0, duration_seconds: 3600, reason: "busy machine" });
    await normal.waitFor();
  }
  // Of a moment in which the store did not answer.
  await page.locator(".banners > *").first().waitFor({ state: "detached" });
}

async function takeAll(browser: Browser, gateway: GatewayProcess): Promise<number> {
  let bytes = 0;
  const pages: { page: Page; width: number; colorScheme: "light" | "dark" }[] = [];
  for (const [width, height] of widths) {
    for (const colorScheme of ["light", "dark"] as const) {
      const context = await browser.newContext({ viewport: { width, height }, reducedMotion: "reduce", colorScheme });
      pages.push({ page: await context.newPage(), width, colorScheme });
    }
  }
  for (const { page } of pages) {
    page.setDefaultTimeout(120_000);
    await page.goto(gateway.controlUrl);
    await signIn(page, TOKEN);
    await page.getByText("Live").first().waitFor();
  }
  for (const { name, route, tab, prepare } of views) {
    await Promise.all(
      pages.map(async ({ page }) => {
        await page.goto(`${gateway.controlUrl}/#/${route}`);
        if (tab !== undefined) await page.getByRole("tab", { name: tab }).click();
        await page.locator(".loading").first().waitFor({ state: "detached" });
        await prepare?.(page, gateway);
      }),
    );
    // The next message, so that nothing is left of the view before.
    await delay(3_000);
    for (const { page, width, colorScheme } of pages) {
      await untilNormal(page, gateway);
      bytes += await capture(page, `dashboard-${name}-${colorScheme}-${width}.webp`);
    }
    console.log(`${name} done`);
  }
  return bytes;
}

async function main(): Promise<void> {
  // Compiling blocks this process: before servers are started.
  nginxPlane();
  envoyPlane();
  const endings: (() => unknown)[] = [];
  try {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const pods = await Promise.all(CLOSED.map(() => startWebSocketBackend()));
    for (const pod of pods) endings.push(() => pod.stop());
    const demo = await startDemoBackend();
    endings.push(() => demo.close());
    const config = `store: ${redis.url}\nlog: { level: error }\n${apps(REPORTS_RATE)}${common(demo.target, pods)}`;
    const envoyListener = `127.0.0.1:${await freePort()}`;
    const gateway = await startGateway(
      `node_id: gateway-eu-1\nworkers: 2\nenvoy: { listen: "${envoyListener}" }\n${config}`,
      { control: `plane_token: ${PLANE_TOKEN}, operators: { anna: ${TOKEN} }`, built: true },
    );
    endings.push(() => gateway.stop());
    const services = [new URL(gateway.controlUrl).host];
    const nginx = await startNginx(config, { services, workers: 2, node: "nginx-eu-1" });
    endings.push(() => nginx.stop());
    const envoy = await startEnvoy(config, {
      ...{ services, envoyServices: [envoyListener], workers: 1, node: "envoy-eu-1" },
    });
    endings.push(() => envoy.stop());
    const proxies = [gateway.url, nginx.url, envoy.url];
    for (const url of proxies) endings.push(startDemoTraffic({ url }).stop, startUsers(url));
    const browser = await startBrowser();
    endings.push(() => browser.close());
    const sockets = [
      // Three more than there are slots.
      ...(await openSockets(gateway.url, "/live/", pods.length * LIVE_SLOTS - 20)),
      ...(await openSockets(nginx.url, "/live/", 23)),
      ...(await openSockets(gateway.url, "/feed/", 14)),
    ];
    endings.push(() => {
      for (const socket of sockets) socket.terminate();
    });
    pods.forEach(({ server }, i) => {
      const live = [...server.clients].slice(0, CLOSED[i]);
      for (const client of live) client.close();
    });
    await waitFor("a healthy service", async () => {
      const { body, statusCode } = await request(`${gateway.controlUrl}/health/ready`);
      await body.dump();
      return statusCode === 200;
    });
    await delay(WARM_UP_MS - 20_000);
    await someChanges(gateway);
    await delay(20_000);
    mkdirSync(IMAGES, { recursive: true });
    const bytes = await takeAll(browser, gateway);
    const taken = views.length * widths.length * 2;
    const isNew = new RegExp(
      `^dashboard-(${allViews.map(({ name }) => name).join("|")})-(light|dark)-(380|1920)\\.webp$`,
    );
    for (const file of readdirSync(IMAGES))
      if (file.startsWith("dashboard-") && !isNew.test(file)) rmSync(`${IMAGES}/${file}`);
    console.log(`${taken} screenshots, ${Math.round(bytes / 1024)} KiB`);
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

await main();
