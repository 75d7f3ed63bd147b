/**
 * `make screenshots`: takes the screenshots of the dashboard in docs/images again, each view in light and dark, on a phone and
 * on a wide screen, from a gateway with Redis, traffic and WebSockets.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { WebSocket } from "ws";
import { startDemoBackend } from "../src/service/process/demo-backend.js";
import { startDemoTraffic } from "../src/service/process/demo-traffic.js";
import { signIn, startBrowser } from "../test/support/browser.js";
import { type GatewayProcess, startGateway } from "../test/support/gateway-process.js";
import { startRedis } from "../test/support/redis-server.js";
import { waitFor } from "../test/support/wait-for.js";
import { startWebSocketBackend, type WebSocketBackend } from "../test/support/ws-backend.js";
import { fromRoot } from "./paths.js";

const IMAGES = fromRoot("docs/images");
/** So that the charts have something to show. */
const WARM_UP_MS = 120_000;
/** Of WebP, from 0 to 100. */
const QUALITY = 55;
const TOKEN = "token-for-the-screenshots";

const views = [
  ["overview", "overview"],
  ["flow", "flow"],
  ["apps", "apps"],
  ["app", "apps/reports"],
  ["limits", "limits"],
  ["limit", "limits/per-user"],
  ["connections", "connections"],
  ["nodes", "nodes"],
  ["config", "config"],
  ["actions", "actions"],
] as const;
const widths = [
  [380, 800],
  [1920, 1080],
] as const;

const yaml = (store: string, target: string, pods: WebSocketBackend[]) => `
node_id: edge-1
workers: 2
store: ${store}
log: { level: error }
apps:
  default: { guaranteed: 1000, burst: 2000 }
  checkout: { guaranteed: 50, burst: 200, priority: 0 }
  search: { guaranteed: 40, burst: 100 }
  mobile: { guaranteed: 20, burst: 60, borrow: true }
  reports: { guaranteed: 10, burst: 30, priority: 3 }
  import: { guaranteed: 10, burst: 50, priority: 2 }
limits:
  - { name: per-user, key: [user], rate: 100/min }
  - { name: searches, key: [app, ip], rate: 2000/min, match: { path: [/api/hello] } }
  - { name: uploads, key: [user], rate: 800/min, count: cost, dry_run: true, match: { method: [PUT, POST] } }
upstreams:
  web: { targets: ["${target}"] }
  sockets: { targets: [${pods.map((pod) => `"${pod.target}"`).join(", ")}] }
routes:
  - { path: /, upstream: web }
  - { path: /live/, upstream: sockets, connections: { max_per_pod: 12 } }
`;

/** Some pods are fuller than others, and one is full. */
async function openSockets({ url }: GatewayProcess, count: number): Promise<WebSocket[]> {
  const sockets = Array.from({ length: count }, () => new WebSocket(`${url.replace("http", "ws")}/live/`));
  for (const socket of sockets) socket.on("error", () => undefined);
  await delay(2_000);
  return sockets;
}

/** Users with different appetites, so that a limit is reached by some. */
function startUsers({ url }: GatewayProcess): () => void {
  const users = ["ann", "ben", "cay", "dora", "emil", "fay"];
  let turn = 0;
  const timer = setInterval(() => {
    turn++;
    for (const [i, user] of users.entries()) {
      if (turn % (i + 1) !== 0) continue;
      const headers = { "x-app-id": "search", "x-user-id": user };
      fetch(`${url}/api/hello`, { headers }).then(
        (response) => response.arrayBuffer(),
        () => undefined,
      );
    }
  }, 500);
  return () => clearInterval(timer);
}

async function capture(page: Page, file: string): Promise<number> {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  await session.detach();
  const image = Buffer.from(data, "base64");
  writeFileSync(`${IMAGES}/${file}`, image);
  return image.length;
}

async function takeAll(browser: Browser, { controlUrl }: GatewayProcess): Promise<number> {
  let bytes = 0;
  for (const [width, height] of widths) {
    const context = await browser.newContext({ viewport: { width, height }, reducedMotion: "reduce" });
    const page = await context.newPage();
    await page.goto(controlUrl);
    await signIn(page, TOKEN);
    await page.getByText("Live").first().waitFor();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const [name, route] of views) {
        await page.goto(`${controlUrl}/#/${route}`);
        await page.locator(".loading").first().waitFor({ state: "detached" });
        // An app's balance is recorded while its page is open.
        await delay(name === "app" ? 15_000 : 2_000);
        // A busy machine may be degraded for a moment.
        await page.getByText("Normal", { exact: true }).waitFor({ timeout: 120_000 });
        bytes += await capture(page, `dashboard-${name}-${colorScheme}-${width}.webp`);
      }
    }
    await context.close();
  }
  return bytes;
}

async function main(): Promise<void> {
  const redis = await startRedis();
  const pods = await Promise.all(Array.from({ length: 6 }, () => startWebSocketBackend()));
  const demo = await startDemoBackend();
  const gateway = await startGateway(yaml(redis.url, demo.target, pods), {
    control: `admin_token: ${TOKEN}`,
    built: true,
  });
  const browser = await startBrowser();
  const traffic = startDemoTraffic({ url: gateway.url });
  const stopUsers = startUsers(gateway);
  const sockets = await openSockets(gateway, 40);
  try {
    await waitFor("a healthy service", async () => (await fetch(`${gateway.controlUrl}/health/ready`)).ok);
    await delay(WARM_UP_MS);
    mkdirSync(IMAGES, { recursive: true });
    for (const file of readdirSync(IMAGES)) if (file.startsWith("dashboard-")) rmSync(`${IMAGES}/${file}`);
    const bytes = await takeAll(browser, gateway);
    console.log(`${views.length * widths.length * 2} screenshots, ${Math.round(bytes / 1024)} KiB`);
  } finally {
    for (const socket of sockets) socket.terminate();
    stopUsers();
    traffic.stop();
    await browser.close();
    await gateway.stop();
    await Promise.all([demo.close(), redis.stop(), ...pods.map((pod) => pod.stop())]);
  }
}

await main();
