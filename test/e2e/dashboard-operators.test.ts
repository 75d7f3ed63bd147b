/** Operators and viewers in a real browser: what each may do, hostile names, and every admin action. */
import { readFileSync, writeFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type DashboardPage, openDashboard, signIn, startBrowser } from "../support/browser.js";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  PLANE_TOKEN,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../support/gateway-process.js";
import { waitFor } from "../support/wait-for.js";

const VIEWER_TOKEN = "token-of-vera-the-viewer";
/** Runs as a script if it ever becomes markup. */
const MARKUP = "<img/src=x/onerror=hacked=1>";

let browser: Browser;
let backend: SmallBackend;
let gateway: GatewayProcess;
let opened: DashboardPage;
let page: Page;

beforeAll(async () => {
  [browser, backend] = await Promise.all([startBrowser(), startSmallBackend()]);
  gateway = await startGateway(
    `
node_id: gw
workers: 1
log: { level: warn }
lease: { timeout_ms: 10000, report_interval_ms: 100 }
apps:
  default: { guaranteed: 1000, burst: 1000, priority: 0 }
  small: { guaranteed: 0.01, burst: 5, profile: { based_on: iops, bandwidth: 0 } }
  lender: { guaranteed: 20, burst: 50000, borrow: true, profile: { based_on: iops, bandwidth: 0 } }
  "img:src.onerror-alert_1": { guaranteed: 100, burst: 100 }
limits:
  - { name: per-user, key: ["header:x-person"], rate: 3/day, match: { path: [/people] } }
  - { name: per-address, key: [ip], rate: 1000/s }
rate_limits:
  - domain: shop
    descriptors: [{ key: user, value: "${MARKUP}", rate_limit: { unit: day, requests_per_unit: 5 } }]
upstreams: { web: { targets: ["${backend.target}"] } }
routes:
  - { path: /, upstream: web }
  - { path: "/ws${MARKUP}/", upstream: web, connections: { max_per_pod: 3 } }
`,
    { control: `admin_token: ${ADMIN_TOKEN}, plane_token: ${PLANE_TOKEN}, viewers: { vera: ${VIEWER_TOKEN} }` },
  );
});
afterAll(async () => {
  await gateway?.stop();
  await Promise.all([browser?.close(), backend?.stop()]);
});

beforeEach(async () => {
  opened = await openDashboard(browser, gateway.controlUrl);
  page = opened.page;
});
afterEach(async () => {
  await page.context().close();
});

const view = async (name: string) => {
  await page.goto(`${gateway.controlUrl}/#/${name}`);
  await page.waitForSelector("main h1");
};
const shows = (text: string | RegExp) => page.getByText(text).first().waitFor();

async function send(path: string, headers: Record<string, string>, times = 1): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < times; i++) {
    const { statusCode, body } = await request(gateway.url + path, { headers });
    await body.dump();
    statuses.push(statusCode);
  }
  return statuses;
}

async function admin(method: "GET" | "POST", path: string, body?: object, headers: Record<string, string> = {}) {
  const reply = await request(`${gateway.controlUrl}/admin/ratelimit/${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return (await reply.body.json()) as Record<string, unknown>;
}

interface AuditEntry {
  action: string;
  operator: string;
  reason: string;
  outcome: string;
}
const audited = async () => (await admin("GET", "audit")).entries as AuditEntry[];

describe("a viewer", () => {
  it("sees every view, cannot change anything, and is refused if the page is bypassed", async () => {
    await signIn(page, VIEWER_TOKEN);
    await shows("Live");
    await shows("vera (read-only)");
    for (const name of ["flow", "apps", "apps/small", "limits", "limits/per-user", "connections", "nodes", "config"]) {
      await view(name);
      await page.locator(".loading").first().waitFor({ state: "detached" });
      expect(await page.locator("[role=alert]").count(), name).toBe(0);
    }
    await view("actions");
    await shows("Your token may not change anything.");
    const buttons = page.locator(".actions button");
    expect(await buttons.count()).toBeGreaterThan(8);
    for (const button of await buttons.all()) expect(await button.isDisabled()).toBe(true);
    const replies = await page.evaluate(async () => {
      const call = async (method: string, path: string, body: object) => {
        const init = { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
        const reply = await fetch(`/admin/ratelimit/${path}`, init);
        return `${reply.status} ${((await reply.json()) as { reason: string }).reason}`;
      };
      return [
        await call("POST", "emergency", { action: "activate" }),
        await call("DELETE", "degradation", {}),
        await call("POST", "limits/per-user/reset", { value: "ann" }),
        await call("PUT", "config", { config: {} }),
      ];
    });
    expect(replies).toEqual(new Array(4).fill("403 read_only"));
    expect(await admin("GET", "emergency")).toMatchObject({ emergency_mode: false });
    expect(opened.errors).toEqual([]);
  });
});

describe("a session", () => {
  it("that has expired leads to the sign-in, and its cookie opens nothing", async () => {
    const yaml = `workers: 1
log: { level: warn }
upstreams: { web: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: web }]
`;
    const short = await startGateway(yaml, { control: `admin_token: ${ADMIN_TOKEN}, session_seconds: 3` });
    const own = await openDashboard(browser, short.controlUrl);
    try {
      await signIn(own.page, ADMIN_TOKEN);
      await own.page.getByText("Live").first().waitFor();
      const [cookie] = await own.page.context().cookies();
      await own.page.getByText("Your session has ended. Sign in again.").waitFor();
      const headers = { cookie: `${cookie!.name}=${cookie!.value}` };
      for (const path of ["/admin/ratelimit/status", "/dashboard/session", "/dashboard/events"]) {
        const reply = await request(short.controlUrl + path, { headers });
        await reply.body.dump();
        expect([path, reply.statusCode]).toEqual([path, 401]);
      }
    } finally {
      await own.page.context().close();
      await short.stop();
    }
  });
});

describe("names, values and reasons from others", () => {
  it("are text in every view, never markup", async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    await send("/x", { "x-app-id": "img:src.onerror-alert_1" }, 2);
    await send("/x", { "x-app-id": "small" }, 8);
    await send("/people", { "x-person": MARKUP, "x-app-id": "default" }, 5);
    // With the shared token, operators choose their name.
    const order = { action: "activate", reason: `because ${MARKUP}`, operator: `eve ${MARKUP}`, duration_seconds: 600 };
    await admin("POST", "emergency", order);
    await admin("POST", "degradation", { level: 1, reason: MARKUP, operator: MARKUP });
    // A data plane cannot choose such a name at all.
    const sync = await request(`${gateway.controlUrl}/v1/sync`, {
      method: "POST",
      headers: { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify({ node: MARKUP, epoch: 1, seq: 1 }),
    });
    await sync.body.dump();
    expect(sync.statusCode).toBe(400);
    const shown: [view: string, text: string | RegExp][] = [
      ["overview", `Emergency, started by eve ${MARKUP}`],
      ["overview", /^Reason: because <img/],
      ["flow", "Token flow"],
      ["apps", "img:src.onerror-alert_1"],
      ["apps/img%3Asrc.onerror-alert_1", "img:src.onerror-alert_1"],
      [`apps/${encodeURIComponent(MARKUP)}`, MARKUP],
      ["limits", "per-user"],
      ["limits", new RegExp(`shop.*${MARKUP}`)],
      ["limits/per-user", MARKUP],
      [`limits/${encodeURIComponent(MARKUP)}`, MARKUP],
      ["connections", `/ws${MARKUP}/`],
      ["nodes", "gw-1"],
      ["config", "routes"],
      ["actions", "Start an emergency"],
    ];
    const markup = "main :is(img, script, iframe, object, embed), main [onerror]";
    for (const [name, text] of shown) {
      await view(name);
      await shows(text);
      expect([name, await page.locator(markup).count()]).toEqual([name, 0]);
    }
    await view("config");
    await page.getByLabel("Search options").fill("routes");
    await shows(/\/ws<img/);
    await page.getByRole("tab", { name: "Changes" }).click();
    await shows(`“because ${MARKUP}”`);
    await shows(`eve ${MARKUP}`);
    const text = readFileSync(gateway.file, "utf8");
    writeFileSync(gateway.file, `${text}"${MARKUP}": 1\n`);
    await shows("The last configuration was rejected");
    await shows(new RegExp(`^${MARKUP}`));
    expect(await page.locator(markup).count()).toBe(0);
    writeFileSync(gateway.file, text);
    await page.getByRole("tab", { name: "What if" }).click();
    await page.getByLabel("Configuration in YAML").fill(`"${MARKUP}": "${MARKUP}"`);
    await page.getByRole("button", { name: "Compare" }).click();
    await shows("The configuration is invalid");
    expect(await page.locator(markup).count()).toBe(0);
    expect(await page.evaluate("typeof hacked")).toBe("undefined");
    expect(opened.errors).toEqual([]);
    await admin("POST", "emergency", { action: "deactivate" });
    await waitFor("the end of the emergency", async () => (await admin("GET", "emergency")).emergency_mode === false);
  });
});

describe("limits", () => {
  it("are found by name or key, with the values that use them most, and a value can be looked up", async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    await send("/people", { "x-person": "ann" }, 5);
    await send("/people", { "x-person": "ben" }, 1);
    await view("limits");
    const rows = page.locator("tbody tr");
    await rows.nth(1).waitFor();
    await page.getByLabel("Search limits by name or key").fill("x-person");
    await waitFor("one row", async () => (await rows.count()) === 1);
    await rows.getByRole("link", { name: "per-user" }).click();
    await page.locator("tr", { hasText: "ann" }).waitFor();
    await waitFor("all spent tokens to be reported", async () => {
      const cells = await page.locator("tr", { hasText: "ann" }).locator("td").allTextContents();
      return cells[1]?.startsWith("3") && cells[3] === "0";
    });
    await page.getByLabel("Find one value").fill("ben");
    await page.keyboard.press("Enter");
    await page.locator(".why", { hasText: /^ben has [12] of 3 tokens of per-user/ }).waitFor();
    await page.getByRole("button", { name: "Show the top values" }).click();
    await page.locator("tr", { hasText: "ann" }).waitFor();
    expect(opened.errors).toEqual([]);
  });
});

describe("every admin action", () => {
  const done = (title: string) => `${title}: done`;
  const cases: [title: string, fields: Record<string, string>, action: string][] = [
    ["Start an emergency", {}, "emergency"],
    ["End the emergency", {}, "emergency"],
    ["Pin the level", { level: "2" }, "degradation.pin"],
    ["Unpin the level", {}, "degradation.unpin"],
    ["Borrow", { app_id: "lender", amount: "5" }, "borrow"],
    ["Repay", { app_id: "lender", amount: "2" }, "repay"],
    ["Reconcile", { app_id: "small" }, "reconcile"],
    ["Reset a value", { limit: "per-user", value: "cay" }, "limit-reset"],
    ["Top up a value", { limit: "per-user", value: "cay", amount: "2" }, "limit-top-up"],
    ["Reload", {}, "reload"],
  ];

  it("asks for a reason and a confirmation, works, and is audited", async () => {
    await signIn(page, ADMIN_TOKEN);
    await shows("Live");
    await send("/x", { "x-app-id": "lender" }, 50);
    await send("/people", { "x-person": "cay" }, 3);
    await view("actions");
    const titles = await page.locator(".actions button").evaluateAll((all) => all.map((one) => one.ariaLabel));
    expect(titles.toSorted()).toEqual(cases.map(([title]) => title).toSorted());
    for (const [title, fields, action] of cases) {
      await page.getByRole("button", { name: title, exact: true }).click();
      const dialog = page.getByRole("dialog");
      for (const [name, value] of Object.entries(fields)) {
        const field = dialog.locator(`#field-${name}`);
        if (await field.evaluate((element) => element.tagName === "SELECT")) await field.selectOption(value);
        else await field.fill(value);
      }
      const confirm = dialog.getByRole("button", { name: title, exact: true });
      const before = (await audited()).length;
      await confirm.click();
      expect(await dialog.locator("#reason:invalid").count(), title).toBe(1);
      await dialog.locator("#reason").fill(`drill of ${title}`);
      await dialog.getByRole("checkbox").check();
      // Tokens on leases take up space in the bucket until they are reported as spent. The dialog may close at any moment.
      await waitFor(title, async () => {
        if ((await page.getByText(done(title)).count()) > 0) return true;
        if (await confirm.isEnabled({ timeout: 500 })) await confirm.click({ timeout: 500 });
        return false;
      });
      const entries = await audited();
      expect(entries.length).toBeGreaterThan(before);
      expect(entries[0]).toMatchObject({ action, outcome: "done", reason: `drill of ${title}`, operator: "admin" });
    }
    expect(await admin("GET", "emergency")).toMatchObject({ emergency_mode: false });
    expect(await admin("GET", "degradation")).toMatchObject({ pinned_level: null });
    expect(await admin("GET", "limits/per-user?value=cay")).toMatchObject({ values: [{ value: "cay", remaining: 3 }] });
    expect(opened.errors).toEqual([]);
  });
});
