/** Admin operations on every store, with their audit log entries. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSlots } from "../../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import type { Store } from "../../../../src/store/store.js";
import { type ControlServer, startControl } from "../../../support/control-server.js";
import { appReport, nodeReport, refusalReport } from "../../../support/node-reports.js";
import { twoStores } from "../../../support/two-stores.js";
import { waitFor } from "../../../support/wait-for.js";

type Json = Record<string, unknown>;

const stores = twoStores(2_000);

const refusals = [
  refusalReport({ at: Date.now(), code: "quota_exhausted", cost: 990, remaining: 2 }),
  refusalReport({ at: Date.now() - 5_000, code: "cost_exceeds_capacity", cost: 2_000, retryAfterMs: 0 }),
];
const reports = [nodeReport({ level: 1 }), nodeReport({ node: "gw-2" })];
const appReports = [
  [appReport({ lastRefusals: refusals })],
  [appReport({ node: "gw-2", requests: 10, allowed: 10, refused: 0, l3Hits: 9, refusals: {}, lastRefusals: [] })],
];

describe.each(stores)("over the %s store", (_name, open) => {
  let store: Store;
  let control: ControlServer;
  beforeEach(async () => {
    store = await open();
    control = await startControl(store, { reports, appReports });
  });
  afterEach(async () => {
    await control.close();
    await store.close();
  });

  async function ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Json> {
    const response = await control.admin(method, path, body, headers);
    const answer = (await response.json()) as Json;
    expect(response.status, JSON.stringify(answer)).toBe(200);
    return answer;
  }

  it("an emergency starts and ends for the whole cluster", async () => {
    const order = { action: "activate", reason: "too\u0007 hot", operator: "alice", duration_seconds: 120.5 };
    const on = await ask("POST", "/emergency", order);
    expect(on).toMatchObject({
      ...{ status: "emergency_activated", emergency_mode: true, operator: "alice" },
      affected_apps: ["video", "batch", "default"],
    });
    expect(Date.parse(String(on.expires_at)) - Date.parse(String(on.started_at))).toBe(120_500);
    expect(control.coordinator.emergency()).toMatchObject({ active: true, source: "operator" });
    const starter = { source: "operator", reason: "too\u0007 hot", operator: "alice" };
    expect(await ask("GET", "/emergency")).toMatchObject({ emergency_mode: true, ...starter });
    expect(await ask("GET", "/status")).toMatchObject({ mode: "emergency", emergency: starter });
    const off = await ask("POST", "/emergency", { action: "deactivate" }, { "x-operator": "bob" });
    expect(off).toMatchObject({
      ...{ status: "emergency_deactivated", emergency_mode: false, operator: "bob", affected_apps: [] },
      ...{ started_at: null, expires_at: null },
    });
    expect(control.audited()).toMatchObject([
      {
        ...{ action: "emergency", operator: "alice", reason: "too\u0007 hot", client: "127.0.0.1", outcome: "done" },
        parameters: { action: "activate", duration_seconds: 120.5 },
        before: { emergency_mode: false },
        after: { emergency_mode: true, source: "operator", operator: "alice" },
      },
      { action: "emergency", operator: "bob", outcome: "done", before: { emergency_mode: true } },
    ]);
  });

  it("an emergency without duration lasts until it is turned off", async () => {
    const on = await ask("POST", "/emergency", { action: "activate", duration_seconds: 0 });
    expect(on.expires_at).toBeNull();
    expect(await ask("GET", "/status")).toMatchObject({ emergency: { source: "operator", seconds_left: 0 } });
  });

  it("a level is pinned for workers and data planes, and unpinned", async () => {
    const order = { level: 3, reason: "drill", duration_seconds: 90 };
    const reply = await ask("POST", "/degradation", order, { "x-operator": "carol" });
    expect(reply).toMatchObject({ previous_level: 1, current_level: 3, reason: "drill" });
    expect(control.pinned).toEqual([{ level: 3, durationMs: 90_000 }]);
    expect(await ask("GET", "/degradation")).toMatchObject({
      ...{ level: 3, pinned_level: 3, pinned_until: reply.expires_at, service_level: 3 },
      ...{ reason: "drill", operator: "carol" },
      workers: [
        { node_id: "gw-1", level: 1 },
        { node_id: "gw-2", level: 0 },
      ],
    });
    expect(await ask("GET", "/status")).toMatchObject({ mode: "degraded", degradation_pinned_until: reply.expires_at });
    expect(await ask("DELETE", "/degradation")).toMatchObject({ level: 1, pinned_level: null, service_level: 0 });
    expect(control.pinned.at(-1)).toEqual({ level: 0, durationMs: 0 });
    expect(control.audited()).toMatchObject([
      { action: "degradation.pin", operator: "carol", before: { level: 1 }, after: { level: 3, pinned_level: 3 } },
      { action: "degradation.unpin", operator: "admin", before: { pinned_level: 3 }, after: { pinned_level: null } },
    ]);
  });

  it("tokens are borrowed and repaid, and a refusal is explained", async () => {
    const spend = (seq: number, granted: number, need: number) =>
      control.post({
        ...{ node: "p", epoch: 1, seq },
        apps: [{ app: "loans", granted, spent: granted, need, want: need }],
      });
    await spend(1, 0, 400);
    // Tokens on a lease count towards the capacity.
    expect(await ask("POST", "/borrow", { app_id: "loans", amount: 10 })).toMatchObject({ code: "bucket_full" });
    await spend(2, 400, 0);
    const lent = await ask("POST", "/borrow", { app_id: "loans", amount: 10, operator: "dan" });
    expect(lent).toMatchObject({ status: "borrowed", code: "ok", borrowed: 10, debt: 12, borrowable: 40 });
    const refused = await ask("POST", "/borrow", { app_id: "loans", amount: 51 });
    expect(refused).toMatchObject({ status: "refused", code: "borrow_limit_exceeded", borrowed: 0 });
    expect(refused.explanation).toMatch(/^loans may borrow \d\d tokens more, not 51: it owes \d+,/);
    expect(await ask("POST", "/borrow", { app_id: "video", amount: 1 })).toMatchObject({
      ...{ status: "refused", code: "borrowing_disabled" },
      explanation: "video may not borrow: set apps.video.borrow to true.",
    });
    // The refill may already have repaid a part.
    const repaid = await ask("POST", "/repay", { app_id: "loans", amount: 500 });
    expect(repaid).toMatchObject({ status: "repaid", code: "ok", debt: 0 });
    expect(repaid.repaid).toBeLessThanOrEqual(12);
    expect(control.audited()).toMatchObject([
      { action: "borrow", outcome: "refused", why: "bucket_full" },
      { action: "borrow", operator: "dan", outcome: "done", before: { debt: 0 }, after: { debt: 12 } },
      { action: "borrow", outcome: "refused", why: "borrow_limit_exceeded" },
      { action: "borrow", outcome: "refused", why: "borrowing_disabled" },
      { action: "repay", outcome: "done", after: { repaid: repaid.repaid, debt: 0 } },
    ]);
  });

  it("tokens that were spent without cover, as in an outage, are forgiven by repaying them", async () => {
    await control.post({
      ...{ node: "p", epoch: 1, seq: 1 },
      apps: [{ app: "loans", granted: 0, spent: 1_000_000, need: 0, want: 0 }],
    });
    const part = { status: "repaid", code: "ok", repaid: 10_000, debt: 0, remaining: 0 };
    expect(await ask("POST", "/repay", { app_id: "loans", amount: 10_000 })).toMatchObject(part);
    const rest = await ask("POST", "/repay", { app_id: "loans", amount: 10_000_000 });
    // Without what the bucket had, and its refill since then.
    expect(rest.repaid).toBeGreaterThan(900_000);
    expect(rest.repaid).toBeLessThan(990_000);
    expect(await ask("POST", "/repay", { app_id: "loans", amount: 1 })).toMatchObject({ repaid: 0, debt: 0 });
    await waitFor("the bucket to be above zero", async () => {
      const { remaining } = await ask("POST", "/repay", { app_id: "loans", amount: 1 });
      return Number(remaining) > 0;
    });
  });

  it("one app and all apps are reconciled", async () => {
    expect(await ask("POST", "/reconcile", { app_id: "video", force: true })).toMatchObject({
      app_id: "video",
      apps: 1,
    });
    expect(await ask("POST", "/reconcile")).toMatchObject({ app_id: "*", apps: 4, drift_after: 0 });
  });

  it("the configuration is reloaded; an invalid one changes nothing and lists all problems", async () => {
    const first = control.live.version();
    await control.writeFile({ apps: { video: { guaranteed: 7, burst: 9 } } });
    // `force` applies the file again even if a message from the store already made the service read it.
    const order = { source: "file", force: true };
    const unconfirmed = await control.admin("POST", "/reload", order);
    expect([unconfirmed.status, await unconfirmed.json()]).toMatchObject([
      409,
      { reason: "confirmation_needed", field: "confirm", problems: [{ path: "apps" }] },
    ]);
    expect(control.live.version()).toBe(first);
    const reloaded = await ask("POST", "/reload", { ...order, confirm: true });
    expect(reloaded).toMatchObject({ status: "reloaded", restart_needed: [], config_version: control.live.version() });
    expect(reloaded.config_version).not.toBe(first);
    expect(await ask("GET", "/apps/video")).toMatchObject({ config: { guaranteed: 7, burst: 9 } });
    expect(await ask("POST", "/reload", { source: "file" })).toMatchObject({ status: "unchanged" });
    await control.writeFile({ apps: { video: { guaranteed: -1, brst: 5 } } });
    const bad = await control.admin("POST", "/reload", { source: "file" });
    const answer = (await bad.json()) as { problems: Json[] };
    expect([bad.status, answer]).toMatchObject([422, { error: "invalid_config" }]);
    expect(answer.problems.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["apps.video.guaranteed", "apps.video.brst"]),
    );
    expect(await ask("GET", "/apps/video")).toMatchObject({ config: { guaranteed: 7 } });
    const deep = (await (await control.call("GET", "/health/deep")).json()) as { components: { config: Json } };
    expect(deep.components.config).toMatchObject({ status: "degraded", last_error: expect.stringContaining("brst") });
    expect(control.audited()).toMatchObject([
      { action: "reload", outcome: "refused", status: 409 },
      { action: "reload", outcome: "done", after: { config_version: reloaded.config_version } },
      { action: "reload", outcome: "done" },
      { action: "reload", outcome: "refused", status: 422 },
    ]);
  });

  it("an option that needs a restart is rejected; force applies the other changes", async () => {
    await control.writeFile({ cluster: { id: "other", capacity: 5_000, rate: 10, automatic_emergency: false } });
    const refused = await control.admin("POST", "/reload", { source: "file" });
    expect([refused.status, await refused.json()]).toMatchObject([
      409,
      { reason: "restart_needed", problems: [{ path: "cluster.id" }] },
    ]);
    expect(await ask("POST", "/reload", { source: "file", force: true })).toMatchObject({
      ...{ status: "reloaded", restart_needed: ["cluster.id"] },
    });
    expect(control.live.current().cluster).toMatchObject({ id: "c", capacity: 5_000 });
  });

  it("the store layer is written with a revision check, and removed", async () => {
    expect(await ask("GET", "/config")).toMatchObject({ revision: 0, config: {} });
    const config = { apps: { video: { burst: 77 } } };
    const written = await ask("PUT", "/config", { config, expected_revision: 0, operator: "eve", reason: "less" });
    expect(written).toMatchObject({ revision: 1, config, config_version: control.live.version() });
    const late = await control.admin("PUT", "/config", { config: {}, expected_revision: 0 });
    expect([late.status, await late.json()]).toMatchObject([409, { reason: "revision_changed" }]);
    expect(await ask("GET", "/config")).toMatchObject({ revision: 1, config });
    expect(await ask("DELETE", "/config")).toMatchObject({ config: {} });
    expect(await ask("GET", "/apps/video")).toMatchObject({ config: { burst: 1_000 } });
    expect(control.audited()).toMatchObject([
      {
        ...{ action: "config.put", operator: "eve", reason: "less", outcome: "done" },
        ...{ parameters: { config }, before: { revision: 0 }, after: { revision: 1 } },
      },
      { action: "config.put", outcome: "refused", why: "revision_changed", parameters: { options: [] } },
      { action: "config.delete", outcome: "done" },
    ]);
  });

  it("an app is shown with every layer, its leases and explained refusals", async () => {
    const apps = [{ app: "video", granted: 0, spent: 0, need: 100, want: 100 }];
    await control.post({ node: "gw-1", epoch: 5, seq: 1, apps });
    await control.post({ node: "plane-9", epoch: 1, seq: 1, apps });
    await control.post({
      ...{ node: "plane-9", epoch: 1, seq: 2 },
      apps: [{ app: "video", granted: 100, spent: 60, need: 0, want: 0 }],
    });
    const shown = await ask("GET", "/apps/video");
    expect(shown).toMatchObject({
      app_id: "video",
      config: { guaranteed: 100, burst: 1_000, priority: 1, on_store_failure: "closed", dry_run: false },
      layers: {
        l1: { capacity: 10_000, rate: 1_000 },
        l2: { granted: 200, spent: 60, returned: 0, debt: 0 },
        l3: { held: 140 },
      },
      statistics: { requests: 40, allowed: 38, rejected: 2, l3_hit_ratio: 0.9, refusals: { quota_exhausted: 2 } },
      last_refusals: [
        { code: "quota_exhausted", layer: "L2", node_id: "gw-1", cost: 990 },
        { code: "cost_exceeds_capacity", layer: "L2", cost: 2_000 },
      ],
    });
    const { leases } = (shown.layers as { l3: { leases: Json[] } }).l3;
    expect(leases.sort((a, b) => (String(a.node_id) < String(b.node_id) ? -1 : 1))).toEqual([
      { node_id: "gw-1", alive: true, held: 100, granted: 100, spent: 0, returned: 0, balance: 40 },
      { node_id: "plane-9", alive: true, held: 40, granted: 100, spent: 60, returned: 0, balance: null },
    ]);
    expect((shown.last_refusals as Json[])[0]?.explanation).toBe(
      "video has used its burst of 1,000 tokens: its bucket has 2 tokens, the request cost 990. " +
        "The bucket refills at 100 tokens per second; retry in about 6 s.",
    );
    expect(shown.why).toMatch(/: its bucket has \d+ of 1,000 tokens and refills .* The last refusal was /);
  });

  it("apps are listed in pages, with their request counters", async () => {
    const all = await ask("GET", "/apps");
    expect((all.apps as Json[]).map(({ app_id }) => app_id)).toEqual(["video", "loans", "batch", "default"]);
    expect(all).toMatchObject({ total: 4, cluster: { capacity: 10_000, rate: 1_000 } });
    expect((all.apps as Json[])[0]).toMatchObject({
      ...{ requests: 40, allowed: 38, rejected: 2, l2_tokens: 1_000, debt: 0 },
      last_refusal: { code: "quota_exhausted" },
    });
    const second = await ask("GET", "/apps?offset=1&limit=2");
    expect((second.apps as Json[]).map(({ app_id }) => app_id)).toEqual(["loans", "batch"]);
    expect(second.total).toBe(4);
  });

  it("connections are counted per route and pod", async () => {
    const slots = createSlots(store, "c1//ws/");
    const limits = { maxPerPod: 2, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: 30_000 };
    for (const connection of ["a", "b", "c"]) {
      await slots.acquire({ proxy: "p", connection, app: "video", pods: ["127.0.0.1:9101"] }, limits);
    }
    expect(await ask("GET", "/connections")).toMatchObject({
      ...{ total: 2, rejected: 1 },
      routes: [{ route: "/ws/", connections: 2, limit: 0, rejected: 1 }],
      pods: [{ route: "/ws/", upstream: "sockets", pod: "127.0.0.1:9101", connections: 2, limit: 2 }],
      unavailable: [],
    });
  });

  it("status sums up the reports of the workers", async () => {
    expect(await ask("GET", "/status")).toMatchObject({
      ...{ node_id: "gw", workers: 2, connections: 14, degradation_level: 1, mode: "degraded" },
      shared_memory: { ratelimit: { used_mb: 40, free_mb: 160 } },
      redis: { connected_nodes: 1, pool_size: store.kind === "embedded" ? 0 : 512 },
      statistics: {
        ...{ total_requests: 200, allowed_requests: 180, rejected_requests: 20, rejection_rate: 0.1 },
        ...{ l3_hit_ratio: 0.96, dry_run_rejected: 4, syncs: 10, failed_syncs: 2 },
      },
    });
  });
});

describe("leases of a dead node", () => {
  it("are shown while they hold tokens, separate from those of its next epoch", async () => {
    let micros = 1_750_000_000_000_000;
    const store = createEmbeddedStore({ clock: () => micros });
    const control = await startControl(store, { appReports, config: { cluster: { node_ttl_ms: 3_000 } } });
    const apps = [{ app: "video", granted: 0, spent: 0, need: 100, want: 100 }];
    await control.post({ node: "gw-1", epoch: 4, seq: 1, apps });
    await control.post({ node: "gone", epoch: 1, seq: 1, apps: [{ ...apps[0], need: 0, want: 0 }] });
    for (let seq = 1; seq <= 8; seq++) {
      micros += 1_000_000;
      await control.post({ node: "gw-1", epoch: 5, seq, apps: seq === 1 ? apps : [] });
    }
    const shown = (await (await control.admin("GET", "/apps/video")).json()) as Json;
    const { leases } = (shown.layers as { l3: { leases: Json[] } }).l3;
    expect(leases.sort((a) => (a.alive === true ? -1 : 1))).toMatchObject([
      { node_id: "gw-1", alive: true, held: 100, balance: 40 },
      { node_id: "gw-1", alive: false, held: 100, balance: null },
    ]);
    const deep = (await (await control.call("GET", "/health/deep")).json()) as { nodes: Json[] };
    expect(deep.nodes.map(({ node_id, alive }) => `${node_id} ${alive}`).sort()).toEqual([
      "gone false",
      "gw-1 false",
      "gw-1 true",
    ]);
    await control.close();
    await store.close();
  });
});
