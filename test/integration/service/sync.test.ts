/** Data planes hold leases over HTTP: the same answers from the embedded store and from Redis, in JSON and in text. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { type ControlServer, PLANE_TOKEN, startControl } from "../../support/control-server.js";
import { startRedis } from "../../support/redis-server.js";
import { twoStores } from "../../support/two-stores.js";

const stores = twoStores(500);

describe.each(stores)("sync over the %s store", (_name, open) => {
  let store: Store;
  let control: ControlServer;
  beforeEach(async () => {
    store = await open();
    control = await startControl(store);
  });
  afterEach(async () => {
    await control.close();
    await store.close();
  });

  const counters = { granted: 0, spent: 0, need: 10, want: 100 };
  const message = { node: "plane-1", epoch: 1, seq: 1, apps: [{ app: "video", ...counters }] };

  it("grants what is needed and wanted, and says all that a data plane must know", async () => {
    const response = await control.post(message);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toEqual({
      ...{ code: "ok", live_nodes: 1, emergency: false, emergency_left_ms: 0, config_version: control.live.version() },
      // A busy machine answers more slowly.
      degradation: expect.any(Number),
      apps: [
        { ...{ app: "video", code: "ok", grant: 100, granted: 100 }, remaining: 900, limit: 1000, retry_after_ms: 0 },
      ],
    });
  });

  it("says the same in plain text", async () => {
    const response = await control.post("plane-1 1 1\nvideo 0 0 0 10 100\n", { "content-type": "text/plain" });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toContain("text/plain");
    expect(await response.text()).toBe(`ok 1 0 0 0 ${control.live.version()}\nvideo ok 100 100 900 1000 0\n`);
  });

  const headOf = async (seq: number) => {
    const json = (await (await control.post({ ...message, seq, apps: [] })).json()) as Record<string, unknown>;
    const text = await control.post(`plane-1 1 ${seq + 1}`, { "content-type": "text/plain" });
    return { ...json, text: (await text.text()).trim().split(" ") };
  };

  it("tells of an emergency and of a pinned level, in both forms, for as long as they last", async () => {
    await control.admin("POST", "/emergency", { action: "activate", duration_seconds: 3_600 });
    await control.admin("POST", "/degradation", { level: 2, duration_seconds: 3_600 });
    const during = await headOf(1);
    expect(during).toMatchObject({ emergency: true, degradation: 2 });
    expect(during.text).toEqual(["ok", "1", "1", expect.stringMatching(/^\d{6,7}$/), "2", control.live.version()]);
    await control.admin("POST", "/emergency", { action: "deactivate" });
    await control.admin("DELETE", "/degradation");
    const after = await headOf(3);
    expect(after).toMatchObject({ emergency: false, emergency_left_ms: 0, degradation: 0 });
    expect(after.text).toEqual(["ok", "1", "0", "0", "0", control.live.version()]);
  });

  it("goes by the configuration that is in force: other limits, other apps, another version", async () => {
    const before = control.live.version();
    const order = { config: { apps: { video: { guaranteed: 5, burst: 40 }, fresh: { burst: 70 } } } };
    expect((await control.admin("PUT", "/config", order)).status).toBe(200);
    const apps = ["video", "fresh"].map((app) => ({ app, ...counters, want: 10 }));
    const answer = (await (await control.post({ ...message, apps })).json()) as Record<string, unknown>;
    expect(answer).toMatchObject({
      config_version: control.live.version(),
      apps: [
        { app: "video", code: "ok", limit: 40 },
        { app: "fresh", code: "ok", limit: 70 },
      ],
    });
    expect(answer.config_version).not.toBe(before);
    await control.admin("DELETE", "/config");
    const later = { ...message, node: "plane-2", apps };
    expect(await (await control.post(later)).json()).toMatchObject({
      config_version: before,
      apps: [{ limit: 1000 }, { app: "fresh", code: "unknown_app" }],
    });
  });

  it("answers a repeated message as before, and grants nothing twice", async () => {
    const [first, second] = [await control.post(message), await control.post(message)];
    expect(await second.json()).toEqual(await first.json());
    const later = { ...message, seq: 2, apps: [{ ...counters, app: "video", granted: 100, need: 0, want: 0 }] };
    expect(await (await control.post(later)).json()).toMatchObject({ apps: [{ grant: 0, granted: 100 }] });
    expect(await (await control.post(message)).json()).toMatchObject({ code: "stale_message", apps: [] });
  });

  it("refuses what is not there, with the time to wait", async () => {
    await control.post({ ...message, apps: [{ ...message.apps[0], need: 1000, want: 1000 }] });
    const second = { ...message, node: "plane-2", apps: [{ app: "video", ...counters, need: 50 }] };
    const { apps } = (await (await control.post(second)).json()) as { apps: Record<string, unknown>[] };
    expect(apps[0]).toMatchObject({ code: "quota_exhausted", grant: 0 });
    expect(apps[0]?.retry_after_ms).toBeGreaterThan(0);
  });

  it.each(["json", "text"])("takes all tokens back when a data plane leaves, in %s", async (format) => {
    await control.post(message);
    const gone = { node: "plane-1", epoch: 1, seq: 2, leave: true, apps: [{ app: "video", granted: 100, spent: 30 }] };
    const response =
      format === "json"
        ? await control.post(gone)
        : await control.post("plane-1 1 2 leave\nvideo 100 30 0 0 0", { "content-type": "text/plain" });
    expect(response.status).toBe(200);
    const text = await response.text();
    if (format === "json") expect(JSON.parse(text)).toMatchObject({ code: "ok", apps: [{ app: "video", grant: 0 }] });
    const after = await control.post({ ...message, node: "plane-2", apps: [{ app: "video", ...counters, want: 0 }] });
    const { apps } = (await after.json()) as { apps: { remaining: number }[] };
    // 30 were spent and 10 are granted now; the refill of a moment may have come on top.
    expect(apps[0]?.remaining).toBeGreaterThanOrEqual(960);
  });

  it("tells a data plane that an app is not configured, and serves the others", async () => {
    const apps = [
      { app: "nobody", ...counters },
      { app: "video", ...counters },
    ];
    const answer = await (await control.post({ ...message, apps })).json();
    expect(answer).toMatchObject({
      code: "ok",
      apps: [
        { app: "nobody", code: "unknown_app", grant: 0 },
        { app: "video", code: "ok", grant: 100 },
      ],
    });
  });

  it("keeps a node alive that has nothing to say", async () => {
    const answer = await (await control.post({ node: "plane-1", epoch: 1, seq: 1, apps: [] })).json();
    expect(answer).toMatchObject({ code: "ok", live_nodes: 1, apps: [] });
  });

  const bad: [string, unknown, string][] = [
    ["negative spend", { ...message, apps: [{ app: "video", ...counters, spent: -1 }] }, "apps[0].spent"],
    ["a huge need", { ...message, apps: [{ app: "video", ...counters, need: 1e308 }] }, "apps[0].need"],
    ["NaN, which JSON does not have", '{"node":"a","epoch":1,"seq":NaN}', "body"],
    ["a fraction", { ...message, apps: [{ app: "video", ...counters, want: 0.5 }] }, "apps[0].want"],
    ["a number as text", { ...message, apps: [{ app: "video", ...counters, want: "5" }] }, "apps[0].want"],
    ["no spend", { ...message, apps: [{ app: "video", granted: 0, need: 0, want: 0 }] }, "apps[0].spent"],
    ["no node", { ...message, node: undefined }, "node"],
    ["a node with a line break", { ...message, node: "a\nb" }, "node"],
    ["an app that is no id", { ...message, apps: [{ app: "a{b}", ...counters }] }, "apps[0].app"],
    ["an app twice", { ...message, apps: [message.apps[0], message.apps[0]] }, "apps[1].app"],
    ["seq 0", { ...message, seq: 0 }, "seq"],
    ["an epoch that is no number", { ...message, epoch: null }, "epoch"],
    ["apps that are no list", { ...message, apps: {} }, "apps"],
    ["501 apps", { ...message, apps: Array.from({ length: 501 }, (_, i) => ({ app: `a${i}`, ...counters })) }, "apps"],
    ["a list", [message], "body"],
    ["leave that is no yes or no", { ...message, leave: "yes" }, "leave"],
  ];

  it.each(bad)("400 for %s, and nothing changed", async (_what, body, field) => {
    const response = await control.post(body);
    const answer = (await response.json()) as Record<string, string>;
    expect({ status: response.status, ...answer }).toMatchObject({ status: 400, error: "invalid_argument", field });
    expect(answer.reason).toContain(field);
    const untouched = { ...message, apps: [{ app: "video", ...counters, need: 0, want: 0 }] };
    expect(await (await control.post(untouched)).json()).toMatchObject({ code: "ok", apps: [{ remaining: 1000 }] });
  });

  it.each([
    ["", "epoch"],
    ["plane-1 1", "seq"],
    ["plane-1 1 x", "seq"],
    ["plane-1 1 1 go", "leave"],
    ["plane-1 1 1\nvideo 0 0 0 1", "line 2"],
    ["plane-1 1 1\nvideo 0 -1 0 1 1", "apps[0].spent"],
    ["plane-1 1 1\nvideo 0 1e3 0 1 1", "apps[0].spent"],
    ["plane-1 1 1\nvideo 0 99999999999999999999 0 1 1", "apps[0].spent"],
    ["plane-1 1 1\n\nvideo 0 0 0 1 1", "line 2"],
  ])("400 for the text %j", async (body, field) => {
    const response = await control.post(body, { "content-type": "text/plain" });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ field });
  });
});

describe("when Redis is gone", () => {
  it("the answer is 503 store_unavailable, never 429, and readiness says so", async () => {
    const own = await startRedis();
    const store = createRedisStore({ url: own.url, deadlineMs: 300 });
    const control = await startControl(store);
    try {
      const message = { node: "p", epoch: 1, seq: 1, apps: [{ app: "video", granted: 0, spent: 0, need: 1, want: 1 }] };
      expect((await control.post(message)).status).toBe(200);
      expect((await fetch(`${control.url}/health/ready`)).status).toBe(200);
      await own.kill();
      const response = await control.post({ ...message, seq: 2 });
      expect(response.status).toBe(503);
      expect(await response.json()).toMatchObject({ error: "store_unavailable" });
      expect(response.headers.get("retry-after")).toBe("1");
      await expect.poll(async () => (await fetch(`${control.url}/health/ready`)).status, { timeout: 5_000 }).toBe(503);
      expect((await fetch(`${control.url}/health/live`)).status).toBe(200);
      await own.restart();
      await expect.poll(async () => (await control.post({ ...message, seq: 2 })).status, { timeout: 10_000 }).toBe(200);
      expect(JSON.stringify(control.logged)).not.toContain(PLANE_TOKEN);
    } finally {
      await control.close();
      await store.close();
      await own.stop();
    }
  });
});
