/** Access control: roles, addresses, failed logins, methods and paths. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import type { Store } from "../../../../src/store/store.js";
import { ADMIN_TOKEN, type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";

describe("access", () => {
  let store: Store;
  beforeEach(() => {
    store = createEmbeddedStore();
  });

  it("is denied to everyone without a configured admin token; the reply names the option", async () => {
    const control = await startControl(store, { config: { control: { admin_token: "" } } });
    for (const authorization of ["", "Bearer ", `Bearer ${ADMIN_TOKEN}`, `Bearer ${PLANE_TOKEN}`]) {
      const response = await control.admin("GET", "/status", undefined, { authorization });
      expect(response.status).toBe(403);
      expect(await response.json()).toMatchObject({
        ...{ error: "forbidden", reason: "admin_disabled" },
        detail: expect.stringContaining("control.admin_token"),
      });
    }
    expect(control.audited()).toHaveLength(4);
    await control.close();
  });

  it("is denied with the token of the other role", async () => {
    const control = await startControl(store);
    const response = await control.post({ node: "p", epoch: 1, seq: 1 }, { authorization: `Bearer ${ADMIN_TOKEN}` });
    expect([response.status, ((await response.json()) as { reason: string }).reason]).toEqual([403, "wrong_role"]);
    await control.close();
  });

  it("is denied to an address that is not listed, even with a token", async () => {
    const control = await startControl(store, { config: { control: { allow: ["10.0.0.0/8"] } } });
    for (const path of [
      "/admin/ratelimit/status",
      "/metrics",
      "/openapi.json",
      "/health/deep",
      "/v1/sync",
      "/nothing",
    ]) {
      const response = await control.call("GET", path);
      expect([path, response.status]).toEqual([path, 403]);
      expect(await response.json()).toMatchObject({ reason: "address_not_allowed" });
    }
    expect((await control.call("GET", "/health/ready")).status).toBe(200);
    expect(control.audited().map(({ action }) => action)).toContain("GET /admin/ratelimit/status");
    await control.close();
  });

  it("follows the current configuration: a new token and list apply after a reload", async () => {
    const control = await startControl(store);
    const other = "another-admin-token-9";
    const section = { plane_token: PLANE_TOKEN, allow: ["127.0.0.0/8"], hosts: ["gate.internal"] };
    await control.writeFile({ control: { ...section, admin_token: other } });
    expect((await control.admin("GET", "/status")).status).toBe(200);
    expect((await control.admin("POST", "/reload")).status).toBe(200);
    expect((await control.admin("GET", "/status")).status).toBe(401);
    const authorization = `Bearer ${other}`;
    expect((await control.admin("GET", "/status", undefined, { authorization })).status).toBe(200);
    await control.writeFile({ control: { ...section, admin_token: other, allow: ["10.0.0.0/8"] } });
    expect((await control.admin("POST", "/reload", undefined, { authorization })).status).toBe(200);
    expect((await control.admin("GET", "/status", undefined, { authorization })).status).toBe(403);
    await control.close();
  });

  it("is allowed to a page of the same origin", async () => {
    const control = await startControl(store);
    const headers = { origin: control.url, "sec-fetch-site": "same-origin" };
    expect((await control.admin("DELETE", "/degradation", undefined, headers)).status).toBe(200);
    await control.close();
  });
});

describe("guessing tokens", () => {
  const guess = (control: ControlServer, i: number, path = "/admin/ratelimit/status") =>
    control.call(path === "/v1/sync" ? "POST" : "GET", path, undefined, { authorization: `Bearer guess-number-${i}` });

  it("locks the address after ten wrong tokens until the minute is over, even for the right token", async () => {
    const clock = createSimulatedClock();
    const control = await startControl(createEmbeddedStore(), { clock });
    for (let i = 0; i < 10; i++) expect((await guess(control, i)).status).toBe(401);
    await clock.advance(45_000);
    const locked = await guess(control, 10);
    expect([locked.status, locked.headers.get("retry-after")]).toEqual([429, "15"]);
    expect(await locked.json()).toMatchObject({ error: "too_many_requests", reason: "failed_logins" });
    expect((await control.admin("GET", "/status")).status).toBe(429);
    // Data planes at the same address have their own token, and health needs no token.
    expect((await control.post({ node: "p", epoch: 1, seq: 1 })).status).toBe(200);
    expect((await control.call("GET", "/health/live")).status).toBe(200);
    await clock.advance(15_000);
    expect((await control.admin("GET", "/status")).status).toBe(200);
    expect(JSON.stringify(control.logged)).not.toContain("guess-number");
    expect(control.audited().filter(({ why }) => why === "wrong_token")).toHaveLength(10);
    await control.close();
  });

  it("does not lock an address that recently sent the right token", async () => {
    const control = await startControl(createEmbeddedStore());
    expect((await control.admin("GET", "/status")).status).toBe(200);
    for (let i = 0; i < 15; i++) expect((await guess(control, i)).status).toBe(401);
    expect((await control.admin("GET", "/status")).status).toBe(200);
    await control.close();
  });

  it("is logged at a limited rate, with a count of the rest", async () => {
    const clock = createSimulatedClock();
    const control = await startControl(createEmbeddedStore(), { clock });
    for (let i = 0; i < 40; i++) await guess(control, i, "/v1/sync");
    expect(control.audited()).toHaveLength(10);
    await clock.advance(1_000);
    expect(control.audited().at(-1)).toEqual({ audit: true, suppressed: 30 });
    await control.close();
  });
});

describe("requests", () => {
  let control: ControlServer;
  beforeEach(async () => {
    control = await startControl(createEmbeddedStore());
  });
  afterEach(() => control.close());

  it.each([
    ["POST", "/status", "GET, HEAD"],
    ["GET", "/reload", "POST"],
    ["PATCH", "/config", "GET, HEAD, PUT, DELETE"],
    ["OPTIONS", "/emergency", "GET, HEAD, POST"],
  ])("%s %s is 405 with the allowed methods", async (method, path, allow) => {
    const response = await control.admin(method, path);
    expect([response.status, response.headers.get("allow")]).toEqual([405, allow]);
    expect(await response.json()).toMatchObject({ error: "method_not_allowed" });
  });

  it.each(["/nothing", "/apps/", "/apps/a/b", "/apps/%E0%A4%A", "//status", "/Status"])("%s is 404", async (path) => {
    expect((await control.admin("GET", path)).status).toBe(404);
  });

  it("HEAD replies like GET, without a body", async () => {
    const response = await control.admin("HEAD", "/status");
    expect([response.status, await response.text()]).toEqual([200, ""]);
    expect(Number(response.headers.get("content-length"))).toBeGreaterThan(100);
  });

  it.each([
    ["/apps?limit=501", "limit"],
    ["/apps?limit=0x10", "limit"],
    ["/apps?limit=", "limit"],
    ["/apps?offset=-1", "offset"],
    ["/apps?page=2", "page"],
    ["/apps?limit=1&limit=2", "query"],
  ])("%s is 400 and names %s", async (path, field) => {
    const response = await control.admin("GET", path);
    expect([response.status, ((await response.json()) as { field: string }).field]).toEqual([400, field]);
  });

  it("a misspelt app gets a suggestion", async () => {
    const response = await control.admin("GET", "/apps/vidoe");
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: "unknown_app", detail: "did you mean video?" });
  });
});
