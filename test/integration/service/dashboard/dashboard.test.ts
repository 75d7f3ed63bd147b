/** The dashboard on a control listener: sessions, their limits, files and live data. */
import { afterEach, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { ADMIN_TOKEN, type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";
import { nodeReport } from "../../../support/node-reports.js";

let control: ControlServer;
afterEach(() => control.close());

async function start(config: Record<string, Record<string, unknown>> = {}) {
  control = await startControl(createEmbeddedStore(), { config, reports: [nodeReport()] });
}

const call = (method: string, path: string, headers: Record<string, string> = {}) =>
  fetch(`${control.url}${path}`, { method, headers });

async function signIn(token = ADMIN_TOKEN) {
  const reply = await call("POST", "/dashboard/session", { authorization: `Bearer ${token}` });
  return { reply, cookie: reply.headers.get("set-cookie")?.split(";")[0] ?? "" };
}

it("signs in with the operator's token, which the session then replaces until the operator signs out", async () => {
  await start();
  expect((await call("GET", "/dashboard/session")).status).toBe(401);
  const { reply, cookie } = await signIn();
  expect(reply.status).toBe(200);
  expect(reply.headers.get("set-cookie")).toMatch(/HttpOnly; SameSite=Strict$/);
  expect(await reply.json()).toMatchObject({ operator: "admin", can_change: true, node_id: "gw" });
  expect((await call("GET", "/admin/ratelimit/status", { cookie })).status).toBe(200);
  expect((await call("DELETE", "/dashboard/session", { cookie })).status).toBe(200);
  expect((await call("GET", "/admin/ratelimit/status", { cookie })).status).toBe(401);
  expect(control.audited().map(({ action, outcome }) => [action, outcome])).toContainEqual(["dashboard.login", "done"]);
});

it("does not sign in with a wrong token or that of a data plane", async () => {
  await start();
  expect((await signIn("wrong-token-0123456789")).reply.status).toBe(401);
  const { reply, cookie } = await signIn(PLANE_TOKEN);
  expect([reply.status, cookie]).toEqual([403, ""]);
});

it("ends sessions when the token changes", async () => {
  await start();
  const { cookie } = await signIn();
  await control.writeFile({ control: { admin_token: "another-token-0123456789", allow: ["127.0.0.0/8"] } });
  await control.live.reload({ source: "file", force: false });
  expect((await call("GET", "/dashboard/session", { cookie })).status).toBe(401);
});

it("does not let pages of other sites use a session, not even to read", async () => {
  await start();
  const { cookie } = await signIn();
  const foreign: Record<string, string>[] = [{ origin: "http://evil.example" }, { "sec-fetch-site": "cross-site" }];
  for (const headers of foreign) {
    expect((await call("GET", "/admin/ratelimit/status", { cookie, ...headers })).status).toBe(401);
    expect((await call("GET", "/dashboard/events", { cookie, ...headers })).status).toBe(401);
    expect((await call("POST", "/admin/ratelimit/reload", { cookie, ...headers })).status).toBe(403);
  }
});

it("a session gives no access to the API of data planes", async () => {
  await start();
  const { cookie } = await signIn();
  expect((await call("POST", "/v1/sync", { cookie, "content-type": "application/json" })).status).toBe(401);
});

it("serves the page with a strict policy, and only files that exist", async () => {
  await start();
  const page = await call("GET", "/");
  expect(page.status).toBe(200);
  const policy = page.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|\*|http/);
  const [, script = ""] = /src="\.(\/assets\/[^"]+\.js)"/.exec(await page.text()) ?? [];
  const file = await call("GET", script);
  expect([file.status, file.headers.get("content-type")]).toEqual([200, "text/javascript; charset=utf-8"]);
  expect(file.headers.get("cache-control")).toContain("immutable");
  for (const path of ["/assets/none.js", "/assets/..%2findex.html", "/assets/%2e%2e%2f%2e%2e%2fcli%2fmain.js"]) {
    expect((await call("GET", path)).status, path).toBe(404);
  }
});

it("sends the history and then the state of the view, and ends with the session", async () => {
  await start();
  const { cookie } = await signIn();
  expect((await call("GET", "/dashboard/events?view=nothing", { cookie })).status).toBe(400);
  const response = await call("GET", "/dashboard/events?view=nodes", { cookie });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const read = async (until: RegExp) => {
    while (!until.test(text)) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`the stream ended: ${text}`);
      text += value;
    }
  };
  await read(/event: state\ndata: .*\n\n/);
  expect(text).toMatch(/^event: history\ndata: \{"points":\[/);
  const state = JSON.parse(/event: state\ndata: (.*)\n\n/.exec(text)![1]!) as Record<string, object>;
  expect(state.overview).toMatchObject({ status: { node_id: "gw" }, store: { answers: true }, apps_total: 4 });
  expect(state.nodes).toMatchObject({ partial: false, nodes: [{ node_id: "gw-1", kind: "node", level: 0 }] });
  await call("DELETE", "/dashboard/session", { cookie });
  await read(/event: ended/);
});

it("finds apps by name, and sorts them", async () => {
  await start();
  const list = async (query: string) => {
    const reply = await control.admin("GET", `/apps?${query}`);
    return ((await reply.json()) as { apps: { app_id: string }[] }).apps.map(({ app_id }) => app_id);
  };
  expect(await list("search=a")).toEqual(["loans", "batch", "default"]);
  expect(await list("sort=id")).toEqual(["batch", "default", "loans", "video"]);
  expect(await list("sort=requests&limit=1")).toEqual(["batch"]);
  expect((await control.admin("GET", "/apps?sort=other")).status).toBe(400);
});
