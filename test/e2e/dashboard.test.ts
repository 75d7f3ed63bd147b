/** The dashboard in a real browser, with a real gateway on Redis. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Overview, State } from "../../src/service/dashboard/contract.js";
import { type DashboardPage, openDashboard, signIn, startBrowser } from "../support/browser.js";
import { ADMIN_TOKEN, type GatewayProcess, PLANE_TOKEN, startGateway } from "../support/gateway-process.js";
import { type Backend, startBackend } from "../support/http-backend.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { waitFor } from "../support/wait-for.js";

let browser: Browser;
let redis: RedisServer;
let backend: Backend;
let gateway: GatewayProcess;
let opened: DashboardPage;
let page: Page;

/** Valid names that are as close to HTML as identifiers can be. */
const ODD_APP = "img:src.onerror-alert_1";

beforeAll(async () => {
  [browser, redis, backend] = await Promise.all([
    startBrowser(),
    startRedis(),
    startBackend((_, response) => response.end("<title>other</title>")),
  ]);
  gateway = await startGateway(`
node_id: gw
store: ${redis.url}
workers: 1
log: { level: warn }
apps:
  default: { guaranteed: 1000, burst: 1000 }
  small: { guaranteed: 1, burst: 5, borrow: true }
  "${ODD_APP}": { guaranteed: 100, burst: 100 }
limits: [{ name: per-user, key: [user], rate: 1000/s }]
upstreams: { web: { targets: ["${backend.target}"] } }
routes:
  - { path: /, upstream: web }
  - { path: /ws/, upstream: web, connections: { max_per_pod: 3 } }
`);
});
afterAll(async () => {
  await gateway?.stop();
  await Promise.all([browser?.close(), redis?.stop(), backend?.stop()]);
});

beforeEach(async () => {
  opened = await openDashboard(browser, gateway.controlUrl);
  page = opened.page;
});
afterEach(async () => {
  await page.context().close();
});

async function send(app: string, times: number, headers: Record<string, string> = {}): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < times; i++) {
    const { statusCode, body } = await request(`${gateway.url}/x`, { headers: { "x-app-id": app, ...headers } });
    await body.dump();
    statuses.push(statusCode);
  }
  return statuses;
}

const view = async (name: string) => {
  await page.goto(`${gateway.controlUrl}/#/${name}`);
  await page.waitForSelector("main h1");
};
const everyView = [
  ...[
    "overview",
    "flow",
    "apps",
    "apps/small",
    "limits",
    "limits/per-user",
    "connections",
    "nodes",
    "config",
    "actions",
  ],
];
const shows = (text: string | RegExp) => page.getByText(text).first().waitFor();

/** The messages of the overview, as the page gets them. */
async function followStates() {
  const { body } = await request(`${gateway.controlUrl}/dashboard/events?view=overview`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    bodyTimeout: 60_000,
  });
  const chunks = body[Symbol.asyncIterator]();
  let text = "";
  return {
    async next(): Promise<Overview> {
      for (;;) {
        const found = /event: state\ndata: (.*)\n\n/.exec(text);
        if (found !== null) {
          text = text.slice(found.index + found[0].length);
          return (JSON.parse(found[1]!) as State).overview;
        }
        text += String((await chunks.next()).value);
      }
    },
    async close() {
      body.destroy();
      await body.dump().catch(() => undefined);
    },
  };
}

describe("signing in", () => {
  it("needs the token of an operator, and keeps it out of scripts and addresses", async () => {
    await signIn(page, "not-the-token-0123456789");
    await shows("This token is not valid.");
    await signIn(page, PLANE_TOKEN);
    await shows("This is a token of data planes, not of an operator.");
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ name: "tollgate_session", httpOnly: true, sameSite: "Strict" });
    const stored = await page.evaluate<string>("document.cookie + location.href + JSON.stringify(localStorage)");
    expect(stored).not.toMatch(new RegExp(`${ADMIN_TOKEN}|tollgate_session`));
    expect(opened.errors).toEqual([]);
  });

  it("is needed again when the session has ended", async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    // Another page of the same operator signs out.
    await page.evaluate(() => fetch("/dashboard/session", { method: "DELETE" }));
    await shows("Your session has ended. Sign in again.");
  });

  it("does not let a page of another site read or change anything with the session", async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    const foreign = await page.context().newPage();
    // Another origin and site: the backend answers on 127.0.0.1 with another port, the page comes from localhost.
    await foreign.goto(`http://localhost:${backend.port}/`);
    const outcome = await foreign.evaluate(async (url) => {
      const call = (path: string, method: string) =>
        fetch(`${url}${path}`, { method, credentials: "include", mode: "no-cors" }).then(
          ({ type, status }) => `${type} ${status}`,
          () => "failed",
        );
      return [await call("/admin/ratelimit/status", "GET"), await call("/admin/ratelimit/reload", "POST")];
    }, gateway.controlUrl);
    expect(outcome.join()).not.toMatch(/200/);
    expect(gateway.output()).not.toMatch(/"action":"reload"[^\n]*"outcome":"done"/);
    await foreign.close();
  });
});

describe("an operator", () => {
  beforeEach(async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
  });

  it("sees a limit that is hit, in the second message at the latest: there is one every second", async () => {
    const states = await followStates();
    await states.next();
    expect(await send("small", 12)).toContain(429);
    const refusedAt = Date.now();
    const messages: Overview[] = [];
    const hasIt = ({ recent_refusals }: Overview) => recent_refusals.some(({ app_id }) => app_id === "small");
    while (messages.length < 2 && !messages.some(hasIt)) messages.push(await states.next());
    expect(messages.map(hasIt)).toContain(true);
    expect(Date.parse(messages.at(-1)!.status.timestamp)).toBeGreaterThan(refusedAt - 1_000);
    await states.close();
    const row = page.locator(".refusals li", { hasText: "small" }).first();
    await row.waitFor();
    expect(await row.textContent()).toContain("small has used its burst of 5 tokens");
    await view("apps/small");
    await page.locator(".why", { hasText: /small/ }).waitFor();
    expect(opened.errors).toEqual([]);
  });

  it("turns an emergency on with a reason, which is audited, and off again", async () => {
    await view("actions");
    await page.getByRole("button", { name: "Start an emergency" }).click();
    const confirm = page.getByRole("dialog").getByRole("button", { name: "Start an emergency" });
    await confirm.click();
    // Without a reason and a confirmation nothing happens.
    expect(await page.getByRole("dialog").isVisible()).toBe(true);
    await page.fill("#reason", "load <b>test</b>");
    await page.getByRole("checkbox").check();
    await confirm.click();
    await shows("Start an emergency: done");
    await shows(/^Emergency, started by/);
    await shows(/^Reason: load <b>test<\/b>\. Limits depend/);
    await view("config");
    await page.getByRole("tab", { name: "Changes" }).click();
    await shows("“load <b>test</b>”");
    await waitFor("the audit line", () => /"action":"emergency"[^\n]*"reason":"load/.test(gateway.output()));
    await view("actions");
    await page.getByRole("button", { name: "End the emergency" }).click();
    await page.fill("#reason", "over");
    await page.getByRole("checkbox").check();
    await page.getByRole("dialog").getByRole("button", { name: "End the emergency" }).click();
    await shows("End the emergency: done");
    expect(opened.errors).toEqual([]);
  });

  it("compares another configuration without applying it", async () => {
    await send("small", 10);
    await view("config");
    await shows("apps.small.burst");
    await page.getByRole("tab", { name: "What if" }).click();
    const yaml = readFileSync(gateway.file, "utf8").replace("burst: 5,", "burst: 500,");
    await page.getByLabel("Configuration in YAML").fill("apps: 7");
    await page.getByRole("button", { name: "Compare" }).click();
    await shows("The configuration is invalid");
    await page.getByLabel("Configuration in YAML").fill(yaml);
    await page.getByRole("button", { name: "Compare" }).click();
    await shows("1 changed option");
    await page.locator("td.id", { hasText: "small" }).waitFor();
    const { body } = await request(`${gateway.controlUrl}/admin/ratelimit/apps/small`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    expect(await body.json()).toMatchObject({ config: { burst: 5 } });
  });

  it("sees identifiers as text, never as markup", async () => {
    await send(ODD_APP, 3);
    await send("small", 8, { "user-agent": "<img src=x onerror=alert(1)>" });
    const odd = encodeURIComponent('"><img src=x onerror=alert(1)>');
    for (const name of [
      "overview",
      "flow",
      "apps",
      `apps/${encodeURIComponent(ODD_APP)}`,
      `apps/${odd}`,
      "connections",
      "nodes",
    ]) {
      await view(name);
      expect(await page.locator("main img, main script, main iframe").count(), name).toBe(0);
    }
    expect(opened.errors).toEqual([]);
  });

  it("reaches everything by keyboard, and axe finds no serious problem in either theme", async () => {
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    await send("small", 8);
    await page.reload();
    await shows("Live");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent.trim()")).toBe("Skip to content");
    const found: string[] = [];
    for (const scheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      for (const name of everyView) {
        await view(name);
        await page.locator(".loading").first().waitFor({ state: "detached" });
        // The page forbids scripts from outside, so axe runs in the isolated world of the test.
        const session = await page.context().newCDPSession(page);
        const { frameTree } = await session.send("Page.getFrameTree");
        const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
        await session.send("Runtime.evaluate", { expression: axe, contextId: executionContextId });
        const { result } = await session.send("Runtime.evaluate", {
          contextId: executionContextId,
          awaitPromise: true,
          returnByValue: true,
          expression: `axe.run().then(({ violations }) => violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => id + ": " + nodes.map((one) => one.html).slice(0, 3).join(" ")))`,
        });
        for (const problem of result.value as string[]) found.push(`${name} ${scheme}: ${problem}`);
        await session.detach();
      }
    }
    expect(found).toEqual([]);
  });

  it("fits on a phone: no view is wider than the screen", async () => {
    await page.setViewportSize({ width: 380, height: 800 });
    await send("small", 8);
    for (const name of everyView) {
      await view(name);
      await page.locator(".loading").first().waitFor({ state: "detached" });
      expect(await page.evaluate("document.documentElement.scrollWidth"), name).toBeLessThanOrEqual(380);
    }
  });
});

describe("without the store", () => {
  it("killed and started again: the open page says so, and recovers", async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    await view("apps");
    await page.locator("tbody tr").first().waitFor();
    await redis.kill();
    try {
      await shows("The store does not answer");
      await page
        .getByRole("cell", { name: /^unknown/ })
        .first()
        .waitFor();
      for (const name of everyView) {
        await view(name);
        // Every view has data or says that there is none: no placeholder stays.
        await page.locator(".loading").first().waitFor({ state: "detached" });
        await shows("The store does not answer");
      }
      await view("nodes");
      await shows(/Only the nodes that report to this service/);
    } finally {
      await redis.restart();
    }
    await page.getByText("The store does not answer").first().waitFor({ state: "detached" });
    expect(opened.errors).toEqual([]);
  });

  it("stopped: the open page says so, and recovers", async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    redis.pause();
    try {
      await shows("The store does not answer");
      await view("nodes");
      await shows(/Only the nodes that report to this service/);
    } finally {
      redis.resume();
    }
    await page.getByText("The store does not answer").first().waitFor({ state: "detached" });
    expect(opened.errors).toEqual([]);
  });
});
