/** Dashboard, command line, API and metrics agree about refusals, dry runs and limits. */
import type { Browser, Page } from "playwright-core";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { AppReply, AppsReply, LimitsReply, StatusReply } from "../../src/service/operations/contract/contract.js";
import { type DashboardPage, openDashboard, signIn, startBrowser } from "../support/browser.js";
import { ADMIN_TOKEN, type GatewayProcess, startGateway } from "../support/gateway-process.js";
import { type Backend, startBackend } from "../support/http-backend.js";
import { readPage } from "../support/metrics-page.js";
import { waitFor } from "../support/wait-for.js";

let browser: Browser;
let backend: Backend;
let gateway: GatewayProcess;
let opened: DashboardPage;

/** Refused: 5 of small and 4 of trial by per-user. Would be refused: 6 of trial. */
beforeAll(async () => {
  [browser, backend] = await Promise.all([startBrowser(), startBackend((_, response) => response.end("ok"))]);
  gateway = await startGateway(`
node_id: gw
store: embedded
workers: 1
log: { level: warn }
apps:
  small: { guaranteed: 0.000001, burst: 2, profile: { base: { GET: 1 }, bandwidth: 0 } }
  trial: { guaranteed: 0.000001, burst: 1, dry_run: true, profile: { base: { GET: 1 }, bandwidth: 0 } }
limits:
  - { name: per-user, key: [user], rate: 7/day, match: { app: [trial] } }
  - { name: quiet, rate: 1000/s, match: { app: [small, trial] } }
upstreams: { web: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: web }]
`);
  const statuses: Record<string, number[]> = { small: [], trial: [] };
  for (const [app, times] of [
    ["small", 7],
    ["trial", 11],
  ] as const) {
    for (let i = 0; i < times; i++) {
      const headers = { "x-app-id": app, "x-user-id": "ann" };
      const { statusCode, body } = await request(`${gateway.url}/x`, { headers });
      await body.dump();
      statuses[app]!.push(statusCode);
    }
  }
  expect(statuses.small!.filter((status) => status === 429)).toHaveLength(5);
  expect(statuses.trial!.filter((status) => status === 429)).toHaveLength(4);
});
afterAll(async () => {
  await gateway?.stop();
  await Promise.all([browser?.close(), backend?.stop()]);
});
afterEach(async () => {
  await opened?.page.context().close();
});

async function admin<T>(path: string, method: "GET" | "PUT" = "GET", content?: unknown): Promise<T> {
  const { body } = await request(`${gateway.controlUrl}/admin/ratelimit/${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    ...(content === undefined ? {} : { body: JSON.stringify(content) }),
  });
  return (await body.json()) as T;
}

async function open(view: string, width?: number): Promise<Page> {
  opened = await openDashboard(browser, gateway.controlUrl, width);
  await signIn(opened.page, ADMIN_TOKEN);
  await opened.page.waitForSelector("main h1");
  await opened.page.goto(`${gateway.controlUrl}/#/${view}`);
  return opened.page;
}

const tile = (page: Page, label: string) =>
  page.locator(".tile", { has: page.locator("dt", { hasText: new RegExp(`^${label}$`) }) }).locator(".tile-value");
const card = (page: Page, title: string) =>
  page.locator(".card", { has: page.getByRole("heading", { name: title, exact: true }) });

describe("a request that only a dry run admitted", () => {
  it("is no refusal in the API and the metrics", async () => {
    const { statistics } = await admin<StatusReply>("status");
    expect(statistics).toMatchObject({ rejected_requests: 9, dry_run_rejected: 6 });
    expect(statistics.allowed_requests).toBe(statistics.total_requests - 9);
    const { apps } = await admin<AppsReply>("apps");
    expect(apps.find(({ app_id }) => app_id === "trial")).toMatchObject({ rejected: 4, dry_run_rejected: 6 });
    const trial = await admin<AppReply>("apps/trial");
    expect(trial.statistics).toMatchObject({ allowed: 7, rejected: 4, refusals: { quota_exhausted: 4 } });
    expect(trial.statistics.reasons).toEqual([
      { code: "quota_exhausted", layer: "limit", limit: "per-user", dry_run: false, total: 4 },
      { code: "quota_exhausted", layer: "L2", limit: null, dry_run: true, total: 6 },
    ]);
    expect(trial.why).toContain("its own limit refuses nothing");
    const { body } = await request(`${gateway.controlUrl}/metrics`);
    const page = readPage(await body.text());
    expect(page.sum("ratelimit_requests_rejected_total")).toBe(9);
    expect(page.sum("ratelimit_refusals_total")).toBe(9);
    expect(page.sum("ratelimit_refusals_total", { layer: "limit" })).toBe(4);
    expect(page.sum("ratelimit_requests_total", { status: "dry_run_rejected" })).toBe(6);
  });

  it("is shown apart in the dashboard", async () => {
    const page = await open("overview");
    await page.getByText("9 in total", { exact: false }).first().waitFor();
    expect(await card(page, "Refusals by reason").locator("li").allInnerTexts()).toEqual([
      expect.stringMatching(/Quota exhausted\s+L2\s+5/),
      expect.stringMatching(/Quota exhausted\s+limit per-user\s+4/),
    ]);
    expect(await card(page, "Would be refused without a dry run").locator("li").allInnerTexts()).toEqual([
      expect.stringMatching(/Quota exhausted\s+L2\s+6/),
    ]);
    await page.goto(`${gateway.controlUrl}/#/apps/trial`);
    await page.locator("h1", { hasText: "trial" }).waitFor();
    await tile(page, "Would be refused").waitFor();
    expect(await tile(page, "Refused").textContent()).toBe("4");
    expect(await tile(page, "Would be refused").textContent()).toBe("6");
    expect(await page.locator(".refusals .badge").first().textContent()).toBe("Quota exhausted by limit per-user");
    expect(opened.errors).toEqual([]);
  });
});

describe("limits", () => {
  it("have their requests and refusals in the API and the dashboard", async () => {
    const { limits } = await admin<LimitsReply>("limits");
    expect(limits.map(({ limit, decisions }) => [limit, decisions])).toEqual([
      ["per-user", { requests: 11, allowed: 7, rejected: 4, dry_run_rejected: 0 }],
      ["quiet", { requests: 18, allowed: 18, rejected: 0, dry_run_rejected: 0 }],
    ]);
    const page = await open("limits/per-user");
    await tile(page, "Refused").waitFor();
    expect(await tile(page, "Requests").textContent()).toBe("11");
    expect(await tile(page, "Refused").textContent()).toBe("4");
  });

  it("suggest their burst for a top-up, and say why no tokens were added", async () => {
    const page = await open("actions");
    await page.getByText("Top up…").waitFor();
    await page.getByRole("button", { name: "Top up a value" }).click();
    await page.fill("#field-limit", "per-user");
    await waitFor("the burst", async () => (await page.inputValue("#field-amount")) === "7");
    await page.fill("#field-value", "nobody-yet");
    await page.fill("#reason", "test");
    await page.check(".confirm input");
    await page.locator("dialog button[type=submit]").click();
    await page.getByText("The bucket holds at most its burst of 7 tokens: it is full.").waitFor();
  });
});

describe("the page of an app", () => {
  it("has a chart of its traffic", async () => {
    const page = await open("apps/trial");
    const chart = page.getByRole("img", { name: /^Traffic, last \d+ minutes\. Now: Admitted .*Refused/ });
    await chart.locator("canvas").waitFor();
    await chart.locator(".chart-empty").waitFor({ state: "detached" });
  });
});

describe("a change of the configuration", () => {
  it("is listed as option, old and new value", async () => {
    await admin("config", "PUT", { config: { apps: { small: { burst: 3 } } }, reason: "sale" });
    const page = await open("config");
    await page.click("#tab-history");
    const entry = page.locator(".audit > li", { hasText: "sale" });
    await entry.waitFor();
    expect((await entry.locator(".diff li").allInnerTexts()).map((line) => line.split(/\s+/))).toEqual([
      ["apps.small.burst", "2", "→", "3"],
    ]);
    expect(await entry.textContent()).not.toContain("{");
    const signIn = page.locator(".audit > li", { hasText: "signed in" });
    await signIn.first().waitFor();
    expect(await page.locator(".audit").textContent()).not.toContain("dashboard.login");
  });
});

describe("on a phone", () => {
  it("no page is wider than the screen, and the token flow scrolls", async () => {
    const page = await open("overview", 390);
    for (const view of ["overview", "apps/trial", "apps", "limits", "limits/per-user", "config", "actions", "flow"]) {
      await page.goto(`${gateway.controlUrl}/#/${view}`);
      await page.waitForSelector("main h1");
      if (view === "flow") await page.waitForSelector(".flow-box");
      await waitFor(`${view} to fit`, () =>
        page.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth"),
      );
    }
    const box = page.locator(".flow-box");
    await box.focus();
    for (let i = 0; i < 30; i++) await page.keyboard.press("ArrowRight");
    await waitFor("scrolling", () => box.evaluate((element) => element.scrollLeft > 100));
  });
});
