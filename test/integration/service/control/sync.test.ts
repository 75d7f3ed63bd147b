/** Sync over HTTP: the same replies from the embedded store and Redis, as JSON and as text. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createQuota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import type { Store } from "../../../../src/store/store.js";
import { type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";
import { startRedis } from "../../../support/redis-server.js";
import { twoStores } from "../../../support/two-stores.js";
import { waitFor } from "../../../support/wait-for.js";

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

  it("grants what is needed and wanted, with the state of the cluster", async () => {
    const response = await control.post(message);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toEqual({
      ...{ code: "ok", live_nodes: 1, emergency: false, emergency_left_ms: 0, config_version: control.live.version() },
      // The level depends on store latency, which is higher on a busy machine.
      degradation: expect.any(Number),
      ...{ known: false, recalled: [] },
      apps: [
        {
          ...{ app: "video", code: "ok", grant: 100, granted: 100, remaining: 900, limit: 1000 },
          ...{ retry_after_ms: 0, scarce: false, rate: 100 },
        },
      ],
    });
  });

  it("replies the same in plain text", async () => {
    const response = await control.post("plane-1 1 1\nvideo 0 0 0 10 100\n", { "content-type": "text/plain" });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toContain("text/plain");
    expect(await response.text()).toBe(
      `ok 1 0 0 0 ${control.live.version()} 0\nvideo ok 100 100 900 1000 0 0 100000000\n`,
    );
  });

  it("accepts counters in both formats and ignores unknown names", async () => {
    const numbers = { node: { level: 1, what: 2 }, batch: 3, apps: [{ app: "*", numbers: { GET: [1], what: [2] } }] };
    const json = await control.post({ ...message, numbers });
    expect(await json.json()).toMatchObject({ code: "ok", apps: [{ app: "video", grant: 100 }] });
    const lines = "#node level=1 what=2\n#numbers 3\n#app * GET=1 what=2\n#more to come\n";
    const text = await control.post(`plane-2 1 1\nvideo 0 0 0 0 0\n${lines}`, { "content-type": "text/plain" });
    expect(text.status).toBe(200);
    expect(await text.text()).toContain("\nvideo ok 0 ");
  });

  const headOf = async (seq: number) => {
    const json = (await (await control.post({ ...message, seq, apps: [] })).json()) as Record<string, unknown>;
    const text = await control.post(`plane-1 1 ${seq + 1}`, { "content-type": "text/plain" });
    return { ...json, text: (await text.text()).trim().split(" ") };
  };

  it("reports an emergency and a pinned level in both formats, while they last", async () => {
    await control.admin("POST", "/emergency", { action: "activate", duration_seconds: 3_600 });
    await control.admin("POST", "/degradation", { level: 2, duration_seconds: 3_600 });
    const during = await headOf(1);
    expect(during).toMatchObject({ emergency: true, degradation: 2 });
    expect(during.text).toEqual(["ok", "1", "1", expect.stringMatching(/^\d{6,7}$/), "2", control.live.version(), "1"]);
    await control.admin("POST", "/emergency", { action: "deactivate" });
    await control.admin("DELETE", "/degradation");
    const after = await headOf(3);
    expect(after).toMatchObject({ emergency: false, emergency_left_ms: 0, degradation: 0 });
    expect(after.text).toEqual(["ok", "1", "0", "0", "0", control.live.version(), "1"]);
  });

  it("uses the current configuration: limits, apps and version", async () => {
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

  it("replies to a repeated message as before, and grants nothing twice", async () => {
    const [first, second] = [await control.post(message), await control.post(message)];
    expect(await second.json()).toEqual(await first.json());
    const later = { ...message, seq: 2, apps: [{ ...counters, app: "video", granted: 100, need: 0, want: 0 }] };
    expect(await (await control.post(later)).json()).toMatchObject({ apps: [{ grant: 0, granted: 100 }] });
    expect(await (await control.post(message)).json()).toMatchObject({ code: "stale_message", apps: [] });
  });

  it("recalls tokens that another data plane holds: both are told, once", async () => {
    await control.post({ ...message, apps: [{ ...message.apps[0], need: 1000, want: 1000 }] });
    const second = { ...message, node: "plane-2", apps: [{ app: "video", ...counters, need: 500, want: 500 }] };
    const { apps } = (await (await control.post(second)).json()) as { apps: Record<string, unknown>[] };
    expect(apps[0]).toMatchObject({ code: "recalling", grant: 0, retry_after_ms: 10, scarce: true });
    const heartbeat = { node: "plane-1", epoch: 1, seq: 1, apps: [] };
    const { seq } = await waitFor("the recall", async () => {
      heartbeat.seq++;
      const reply = (await (await control.post(heartbeat)).json()) as { recalled: string[] };
      return reply.recalled.includes("video") && heartbeat;
    });
    const text = await control.post(`plane-3 1 1\n`, { "content-type": "text/plain" });
    expect((await text.text()).trim().split("\n")[1]).toBe("! video");
    expect(await (await control.post({ ...heartbeat, seq: seq + 1 })).json()).toMatchObject({ recalled: [] });
    const returned = { app: "video", granted: 1000, spent: 100, returned: 900, need: 0, want: 0 };
    await control.post({ ...heartbeat, seq: seq + 2, apps: [returned] });
    expect(await (await control.post({ ...second, seq: 2 })).json()).toMatchObject({
      apps: [{ code: "ok", grant: 500 }],
    });
  });

  it("refuses more than the bucket has, with a retry time", async () => {
    await control.post({ ...message, apps: [{ ...message.apps[0], need: 1000, want: 1000 }] });
    const spent = { app: "video", granted: 1000, spent: 1000, need: 0, want: 0 };
    await control.post({ ...message, seq: 2, apps: [spent] });
    const second = { ...message, node: "plane-2", apps: [{ app: "video", ...counters, need: 500, want: 500 }] };
    const { apps } = (await (await control.post(second)).json()) as { apps: Record<string, unknown>[] };
    expect(apps[0]).toMatchObject({ code: "quota_exhausted", grant: 0 });
    expect(apps[0]?.retry_after_ms).toBeGreaterThan(0);
  });

  it.each(["json", "text"])("returns all tokens to the buckets when a data plane leaves, in %s", async (format) => {
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
    // 30 tokens were spent and 10 are granted now. A short refill may have added some.
    expect(apps[0]?.remaining).toBeGreaterThanOrEqual(960);
  });

  it("reports an app that is not configured, and grants the others", async () => {
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

  describe("an app that was removed while a data plane holds tokens of it", () => {
    const fresh = { id: "fresh", burst: 70, guaranteed: 1, priority: 2, borrow: false };
    const quotaOf = () => createQuota(store, { id: "c", capacity: 10_000, rate: 1_000, nodeTtlMs: 10_000 });
    const said = (more: object) => ({ app: "fresh", granted: 40, spent: 0, returned: 0, need: 0, want: 0, ...more });

    /** Grants 40 tokens to plane-1, then removes the app. */
    async function removed(): Promise<void> {
      await control.admin("PUT", "/config", { config: { apps: { fresh: { guaranteed: 1, burst: 70 } } } });
      const asked = said({ granted: 0, need: 40, want: 40 });
      const first = { ...message, apps: [asked] };
      expect(await (await control.post(first)).json()).toMatchObject({ apps: [{ code: "ok", granted: 40 }] });
      await control.admin("DELETE", "/config");
    }

    const unknown = { app: "fresh", code: "unknown_app", grant: 0, granted: 40 };

    it("is charged for its spending; tokens are returned, nothing is granted", async () => {
      await removed();
      const report = { ...message, seq: 2, apps: [said({ spent: 25, returned: 5, need: 30, want: 60 })] };
      expect(await (await control.post(report)).json()).toMatchObject({ code: "ok", apps: [unknown] });
      const books = await quotaOf().inspect(fresh);
      expect(books).toMatchObject({ granted: 40, spent: 25, returned: 5 });
      expect(Math.floor(books.tokens)).toBe(35);
      const leaving = { ...message, seq: 3, leave: true, apps: [said({ spent: 26, returned: 5 })] };
      expect(await (await control.post(leaving)).json()).toMatchObject({ code: "ok", apps: [unknown] });
      expect(await quotaOf().inspect(fresh)).toMatchObject({ granted: 40, spent: 26, returned: 14 });
    });

    it("is charged also by a service that never had its limits, and keeps its bucket", async () => {
      await removed();
      await control.close();
      control = await startControl(store);
      const report = { ...message, seq: 2, apps: [said({ spent: 25, returned: 5 })] };
      expect(await (await control.post(report)).json()).toMatchObject({ code: "ok", apps: [unknown] });
      const books = await quotaOf().inspect(fresh);
      expect(books).toMatchObject({ granted: 40, spent: 25, returned: 5 });
      expect(Math.floor(books.tokens)).toBe(35);
    });

    it("is not stored if the store has no state of it", async () => {
      const made = { ...message, apps: [said({ app: "made-up", granted: 9, spent: 4 })] };
      const answer = await (await control.post(made)).json();
      expect(answer).toMatchObject({ apps: [{ app: "made-up", code: "unknown_app", grant: 0, granted: 9 }] });
      expect((await quotaOf().ledger("plane-1@1")).apps).toEqual([]);
      expect(await quotaOf().inspect({ ...fresh, id: "made-up" })).toMatchObject({ granted: 0, spent: 0 });
    });
  });

  it("keeps a node without messages about apps alive", async () => {
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
    ["an invalid app id", { ...message, apps: [{ app: "a{b}", ...counters }] }, "apps[0].app"],
    ["an app twice", { ...message, apps: [message.apps[0], message.apps[0]] }, "apps[1].app"],
    ["seq 0", { ...message, seq: 0 }, "seq"],
    ["an epoch that is not a number", { ...message, epoch: null }, "epoch"],
    ["apps that are not a list", { ...message, apps: {} }, "apps"],
    ["501 apps", { ...message, apps: Array.from({ length: 501 }, (_, i) => ({ app: `a${i}`, ...counters })) }, "apps"],
    ["a list", [message], "body"],
    ["leave that is not a boolean", { ...message, leave: "yes" }, "leave"],
    ["201 refusals", { ...message, numbers: { batch: 1, refusals: new Array(201).fill({}) } }, "numbers.refusals"],
    ["numbers that are not an object", { ...message, numbers: [] }, "numbers"],
    ["numbers of 201 apps", { ...message, numbers: { batch: 1, apps: new Array(201).fill({}) } }, "numbers.apps"],
    ["numbers without a batch", { ...message, numbers: { apps: [{ app: "video", numbers: {} }] } }, "numbers.batch"],
    [
      "a negative counter",
      { ...message, numbers: { batch: 1, apps: [{ app: "video", numbers: { GET: [1, -1] } }] } },
      "numbers.apps[0].numbers.GET[1]",
    ],
    [
      "numbers of an invalid app id",
      { ...message, numbers: { batch: 1, apps: [{ app: "a b", numbers: {} }] } },
      "numbers.apps[0].app",
    ],
    ["an invalid name of a number", { ...message, numbers: { node: { "a b": 1 } } }, "numbers.node"],
  ];

  it.each(bad)("replies 400 to %s, and nothing changes", async (_what, body, field) => {
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
    ["plane-1 1 1\n#numbers 1\nvideo 0 0 0 1 1", "line 3"],
    ["plane-1 1 1\n#numbers x", "numbers.batch"],
    ["plane-1 1 1\n#app video l3=1", "numbers.batch"],
    ["plane-1 1 1\n#numbers 1\n#app video l3=1,x", "line 3 l3"],
    ["plane-1 1 1\n#numbers 1\n#app video l3", "line 3 l3"],
    ["plane-1 1 1\n#numbers 1\n#app a{b} l3=1", "numbers.apps[0].app"],
    ["plane-1 1 1\n#numbers 1\n#refused video 1 quota_exhausted GET 1", "line 3"],
    ["plane-1 1 1\n#numbers 1\n#refused a{b} 1 quota_exhausted GET 1 0 0 9 0 local 0", "numbers.refusals[0].app"],
    ["plane-1 1 1\n#numbers 1\n#refused video 1 <b> GET 1 0 0 9 0 local 0", "numbers.refusals[0].code"],
    ["plane-1 1 1\n#numbers 1\n#refused video 1 quota_exhausted GET -1 0 0 9 0 local 0", "numbers.refusals[0].cost"],
    ["plane-1 1 1\n#numbers 1\n#refused video 1 quota_exhausted GET 1 -x 0 9 0 local 0", "numbers.refusals[0].balance"],
    ["plane-1 1 1\n#refused video 1 quota_exhausted GET 1 0 0 9 0 local 0", "numbers.batch"],
    ["plane-1 1 1\n#node level=", "line 2 level"],
  ])("replies 400 to the text %j", async (body, field) => {
    const response = await control.post(body, { "content-type": "text/plain" });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ field });
  });
});

describe("without Redis", () => {
  it("the reply is 503 store_unavailable, never 429, and readiness fails", async () => {
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
      await expect.poll(async () => (await fetch(`${control.url}/health/ready`)).status, { timeout: 60_000 }).toBe(503);
      expect((await fetch(`${control.url}/health/live`)).status).toBe(200);
      await own.restart();
      await expect.poll(async () => (await control.post({ ...message, seq: 2 })).status, { timeout: 60_000 }).toBe(200);
      expect(JSON.stringify(control.logged)).not.toContain(PLANE_TOKEN);
    } finally {
      await control.close();
      await store.close();
      await own.stop();
    }
  });
});
