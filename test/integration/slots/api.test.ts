/** The connection API over HTTP: JSON, plain text, and Redis-like keys. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { slotLimits } from "../../../src/config/options/slots.js";
import { connectionEndpoints } from "../../../src/service/control/plane-api/connection-api.js";
import type { RouteLimits } from "../../../src/slots/route-limits.js";
import { createRouteSlots, type RouteSlots, type Slots } from "../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import type { Store } from "../../../src/store/store.js";
import { ADMIN_TOKEN, type ControlServer, PLANE_TOKEN, startControl } from "../../support/control-server.js";

const connections = {
  ...{ max_per_pod: 2, max_total: 0, max_per_app: 3, rate_per_second: 0, lease_s: 30 },
  on_store_failure: "closed" as const,
};
const routes = slotLimits([
  { path: "/api/" },
  { path: "/ws/", connections },
  { path: "/wide/", host: "a.example", connections: { ...connections, max_per_pod: 1_000, max_per_app: 0 } },
]);

let store: Store;
let routeSlots: RouteSlots;
let slots: Slots;
let control: ControlServer;
let limits: ReadonlyMap<string, RouteLimits> = routes;

beforeEach(async () => {
  limits = routes;
  store = createEmbeddedStore();
  routeSlots = createRouteSlots(store, "c1");
  slots = routeSlots.of("/ws/");
  const known = new Set(["chat", "default"]);
  const appOf = (name: string) => (name === "banned" ? undefined : known.has(name) ? name : "default");
  const endpoints = connectionEndpoints({
    slots: routeSlots,
    routes: () => limits,
    appOf,
    timeoutMs: () => 500,
    random: () => 0.5,
  });
  control = await startControl(store, { endpoints });
});
afterEach(async () => {
  await control.close();
  await store.close();
});

function send(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const type = typeof body === "string" ? "text/plain" : "application/json";
  return fetch(`${control.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": type, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}
const jsonOf = async (response: Response) => (await response.json()) as Record<string, never>;
const json = async (path: string, body: unknown) => jsonOf(await send(path, body));
const text = async (path: string, body: string) => (await send(path, body)).text();
const on = (name: string) => `/v1/connections/${name}`;
const asked = (connection: string, more = {}) => ({ proxy: "p1", connection, app: "chat", pods: ["pod-1"], ...more });
const total = async () => (await slots.counts([], 30_000)).total;

describe("/v1/connections in JSON", () => {
  it("takes a slot on the least loaded pod, up to the limits of the service's configuration", async () => {
    expect(await json(on("acquire"), asked("c1", { pods: ["10.0.0.1:80", "[::1]:80"] }))).toMatchObject({
      ...{ allowed: true, code: "SUCCESS", count: 1, pod: "10.0.0.1:80", limit: 2, retry_after: 0, lease_ms: 30_000 },
      memory: expect.any(Number),
    });
    expect(await json(on("acquire"), asked("c2", { pods: ["10.0.0.1:80", "[::1]:80"] }))).toMatchObject({
      ...{ allowed: true, pod: "[::1]:80" },
    });
    await json(on("acquire"), asked("c3", { pods: undefined, pod: "10.0.0.1:80" }));
    const refused = await json(on("acquire"), asked("c4", { app: "other", pods: ["10.0.0.1:80"] }));
    expect(refused).toMatchObject({
      allowed: false,
      code: "LIMIT_EXCEEDED",
      count: 2,
      pod: "",
      limit: 2,
      retry_after: 5,
    });
    expect(await json(on("acquire"), asked("c5", { pods: ["10.0.0.9:80"] }))).toMatchObject({
      ...{ allowed: false, code: "APP_LIMIT_EXCEEDED", limit: 3 },
    });
  });

  it("a repeated call gets ALREADY_HELD", async () => {
    await json(on("acquire"), asked("c1"));
    expect(await json(on("acquire"), asked("c1"))).toMatchObject({ allowed: true, code: "ALREADY_HELD", count: 1 });
  });

  it("a route may be named; its configured limits apply, also after a reload", async () => {
    const wide = { route: "a.example/wide/" };
    for (const id of ["c1", "c2", "c3"]) {
      expect(await json(on("acquire"), asked(id, wide))).toMatchObject({ allowed: true, limit: 1_000 });
    }
    limits = slotLimits([{ path: "/ws/", connections: { ...connections, max_per_pod: 1 } }]);
    expect(await json(on("acquire"), asked("c4", { app: "other" }))).toMatchObject({ allowed: true, limit: 1 });
    expect(await json(on("acquire"), asked("c5", { app: "other" }))).toMatchObject({
      code: "LIMIT_EXCEEDED",
      limit: 1,
    });
    const gone = await send(on("acquire"), asked("c6", wide));
    expect([gone.status, (await jsonOf(gone)).field]).toEqual([400, "route"]);
  });

  it("renews and releases in batches, and returns the connections without a lease", async () => {
    await json(on("acquire"), asked("c1"));
    const both = {
      proxy: "p1",
      connections: ["c1", "c2"].map((id) => ({ connection: id, pod: "pod-1", app: "chat" })),
    };
    expect(await json(on("renew"), both)).toMatchObject({ renewed: 1, lost: ["c2"], lease_ms: 30_000 });
    expect(await json(on("release"), both)).toEqual({ released: 1, unknown: ["c2"], unavailable: [] });
    expect(await total()).toBe(0);
  });

  it("one request takes five thousand connections", async () => {
    const ids = Array.from({ length: 5_000 }, (_, i) => `connection-${i}`);
    const wide = { ...routes.get("/ws/")!, maxPerPod: 10_000, maxPerApp: 0 };
    for (const connection of ids) {
      await slots.acquire({ proxy: "p1", connection, app: "chat", pods: ["pod-1"] }, wide);
    }
    const all = { proxy: "p1", connections: ids.map((connection) => ({ connection, pod: "pod-1", app: "chat" })) };
    expect(await json(on("renew"), all)).toMatchObject({ renewed: 5_000, lost: [] });
    expect(await json(on("release"), all)).toEqual({ released: 5_000, unknown: [], unavailable: [] });
    const more = { proxy: "p1", connections: Array.from({ length: 10_001 }, () => all.connections[0]) };
    const refused = await send(on("renew"), more);
    expect([refused.status, (await jsonOf(refused)).field]).toEqual([400, "connections"]);
  });

  it("counts the total and the named pods", async () => {
    await json(on("acquire"), asked("c1"));
    await json(on("acquire"), asked("c2", { app: "banned" }));
    expect(await json(on("counts"), { pods: ["pod-1", "pod-2"] })).toEqual({
      ...{ total: 1, rejected: 0, pods: { "pod-1": 1, "pod-2": 0 }, unavailable: [] },
    });
    expect(await json(on("counts"), {})).toEqual({ total: 1, rejected: 0, pods: {}, unavailable: [] });
  });

  it("routes count separately; a message may be about connections of several routes", async () => {
    const wide = "a.example/wide/";
    for (const route of ["/ws/", wide]) {
      for (const id of ["c1", "c2"]) await json(on("acquire"), asked(`${id}${route.length}`, { route }));
    }
    const wideSlots = routeSlots.of(wide);
    expect([await total(), (await wideSlots.counts([], 30_000)).total]).toEqual([2, 2]);
    expect(await json(on("counts"), { pods: ["pod-1"] })).toMatchObject({ total: 4, pods: { "pod-1": 4 } });
    expect(await json(on("counts"), { pods: ["pod-1"], route: wide })).toMatchObject({
      ...{ total: 2, pods: { "pod-1": 2 } },
    });
    const held = (connection: string, route?: string) => ({ connection, pod: "pod-1", app: "chat", route });
    const mixed = {
      proxy: "p1",
      connections: [held("c14", "/ws/"), held("c24", wide), held(`c1${wide.length}`, wide)],
    };
    const renewed = await json(on("renew"), mixed);
    expect(renewed).toMatchObject({ renewed: 2, lost: ["c24"], lease_ms: 30_000, memory: 0, unavailable: [] });
    expect((renewed.routes as unknown as { route: string }[]).map(({ route }) => route)).toEqual(["/ws/", wide]);
    // Without a route, a connection is found on whatever route it is.
    const anywhere = { proxy: "p1", connections: [held("c14"), held(`c1${wide.length}`), held("c99")] };
    expect(await json(on("renew"), anywhere)).toMatchObject({ renewed: 2, lost: ["c99"] });
    expect(await json(on("release"), anywhere)).toEqual({ released: 2, unknown: ["c99"], unavailable: [] });
    const common = { proxy: "p1", route: wide, connections: [held(`c2${wide.length}`)] };
    expect(await json(on("release"), common)).toMatchObject({ released: 1 });
    expect([await total(), (await wideSlots.counts([], 30_000)).total]).toEqual([1, 0]);
    // Connections of a route that was removed can still be released.
    limits = new Map([...routes].filter(([name]) => name !== "/ws/"));
    expect(await json(on("release"), { proxy: "p1", route: "/ws/", connections: [held("c24")] })).toMatchObject({
      released: 1,
    });
  });

  it("a route whose store fails is named, and hides nothing of the others", async () => {
    await json(on("acquire"), asked("c1"));
    const failing = routeSlots.tagOf("a.example/wide/");
    const run = store.run.bind(store);
    store.run = (script, keys, args, options) =>
      keys[0]!.includes(failing)
        ? Promise.reject(new StoreError("timeout", "simulated"))
        : run(script, keys, args, options);
    const unavailable = ["a.example/wide/"];
    const both = {
      proxy: "p1",
      connections: [
        { connection: "c1", pod: "pod-1", app: "chat", route: "/ws/" },
        { connection: "c2", pod: "pod-1", app: "chat", route: "a.example/wide/" },
        { connection: "c3", pod: "pod-1", app: "chat" },
      ],
    };
    expect(await json(on("renew"), both)).toMatchObject({ renewed: 1, lost: [], unavailable });
    expect(await json(on("renew"), { proxy: "p1" })).toMatchObject({ renewed: 0, unavailable });
    expect(await text(on("renew"), "p1\nc1 pod-1 chat\n")).toBe("1 1 SUCCESS 30000 0\n#unavailable a.example/wide/\n");
    expect(await json(on("counts"), { pods: ["pod-1"] })).toMatchObject({ total: 1, unavailable });
    expect(await json(on("release"), both)).toMatchObject({ released: 1, unknown: [], unavailable });
    const only = { proxy: "p1", route: "a.example/wide/", connections: [] };
    expect((await send(on("renew"), only)).status).toBe(503);
    expect((await send(on("acquire"), asked("c4", { route: "a.example/wide/" }))).status).toBe(503);
  });

  it("unknown apps share the default app, or are refused", async () => {
    for (const id of ["c1", "c2", "c3"])
      await json(on("acquire"), asked(id, { app: `stranger-${id}`, pods: [`pod-${id}`] }));
    expect(await json(on("acquire"), asked("c4", { app: "stranger-4", pods: ["pod-4"] }))).toMatchObject({
      code: "APP_LIMIT_EXCEEDED",
    });
    expect(await json(on("acquire"), asked("c5", { app: "banned" }))).toMatchObject({
      ...{ allowed: false, code: "unknown_app" },
    });
  });

  it("after the store lost its state, open connections are reclaimed before new ones are admitted", async () => {
    const memory = Number((await json(on("acquire"), asked("c1"))).memory);
    expect(await json(on("acquire"), asked("c2", { memory: memory - 1 }))).toMatchObject({
      ...{ allowed: false, code: "FORGOTTEN", memory },
    });
    expect(await json(on("acquire"), asked("c2", { memory: memory - 1, reclaim: true }))).toMatchObject({
      allowed: true,
    });
  });
});

describe("/v1/connections in text", () => {
  it("acquires, renews, releases and counts in plain text", async () => {
    const [allowed, count, code, pod, wait, leaseMs, memory] = (await text(on("acquire"), "p1 c1 chat\npod-1 pod-2\n"))
      .trim()
      .split(" ");
    expect([allowed, count, code, pod, wait, leaseMs]).toEqual(["1", "1", "SUCCESS", "pod-1", "0", "30000"]);
    await text(on("acquire"), "p1 c2 chat\npod-1\n");
    expect(await text(on("acquire"), `p1 c3 - /ws/ 0 ${memory}\npod-1`)).toBe(
      `0 2 LIMIT_EXCEEDED - 5 30000 ${memory}\n`,
    );
    const renewed = "c1 pod-1 chat\nc9 pod-1 chat\nc2 pod-1 chat\n";
    expect(await text(on("renew"), `p1 /ws/\n${renewed}`)).toBe(`1 2 SUCCESS 30000 ${memory}\nc9\n`);
    expect(await text(on("renew"), `p1\n${renewed}`)).toBe("1 2 SUCCESS 30000 0\nc9\n");
    expect(await text(on("renew"), "p1 /ws/\n")).toBe(`1 0 SUCCESS 30000 ${memory}\n`);
    expect(await text(on("counts"), "pod-1\npod-2\n")).toBe("1 2 SUCCESS 1\npod-1 2\npod-2 0\n");
    expect(await text(on("release"), "p1\nc1 pod-1 chat\nc2 pod-1 chat\n")).toBe("1 2 SUCCESS\n");
    expect(await text(on("counts"), "")).toBe("1 0 SUCCESS 1\n");
    expect(await text(on("acquire"), "p1 c7 chat - 1 1\npod-1\n")).toMatch(/^1 1 SUCCESS pod-1 /);
  });

  it.each(["- c1", "p1 -"])(
    "an acquire that begins with %o is malformed: these words have no default",
    async (line) => {
      const response = await send(on("acquire"), `${line} chat\npod-1\n`);
      expect(response.status).toBe(400);
      expect(await response.text()).toContain("line 1 must be: proxy connection [app");
    },
  );
});

describe("/redis/atomic", () => {
  const atomic = (operation: string, key: string, args: unknown[] = []) =>
    json("/redis/atomic", { operation, key, args });

  it("replies with 1 or 0, a count and a code", async () => {
    const pod = "ws:pod_conn:pod-x";
    expect(await atomic("acquire", pod, [100, "c1", "p1"])).toEqual([1, 1, "SUCCESS"]);
    expect(await atomic("check_and_increment", pod, ["100", "c2", "p2"])).toEqual([1, 2, "SUCCESS"]);
    expect(await atomic("acquire", pod, [100, "c3", "p1"])).toEqual([0, 2, "LIMIT_EXCEEDED"]);
    expect(await atomic("renew", pod, ["p1", "c1", "c2"])).toEqual([1, 1, "SUCCESS", 1, 0]);
    expect(await atomic("count", pod)).toEqual([1, 2, "SUCCESS"]);
    expect(await atomic("count", "ws:global_conn")).toEqual([1, 2, "SUCCESS"]);
    expect(await atomic("count", "ws:rejected")).toEqual([1, 1, "SUCCESS"]);
    expect(await atomic("release", pod, ["c1", "p1"])).toEqual([1, 1, "SUCCESS"]);
    expect(await atomic("decrement", pod, ["c2", "p2"])).toEqual([1, 0, "SUCCESS"]);
    expect(await atomic("heartbeat", "ws:proxy:p1:heartbeat")).toEqual([1, 0, "SUCCESS"]);
  });

  it("max can lower the configured limit, not raise it", async () => {
    expect(await atomic("acquire", "ws:pod_conn:pod-x", [1, "c1", "p1"])).toEqual([1, 1, "SUCCESS"]);
    expect(await atomic("acquire", "ws:pod_conn:pod-x", [1, "c2", "p1"])).toEqual([0, 1, "LIMIT_EXCEEDED"]);
  });

  it("keys with a hash tag are those of its route, others those of the first", async () => {
    const tagged = "ws:{c1/a.example/wide/}:";
    for (const id of ["c1", "c2", "c3"]) {
      const reply = await atomic("acquire", `${tagged}pod_conn:pod-x`, [100, id, "p1"]);
      expect(reply).toEqual([1, Number(id.slice(1)), "SUCCESS"]);
    }
    expect(await atomic("renew", `${tagged}pod_conn:pod-x`, ["p1", "c1"])).toEqual([1, 1, "SUCCESS", 1]);
    expect(await atomic("heartbeat", `${tagged}proxy:p1:heartbeat`)).toEqual([1, 0, "SUCCESS"]);
    expect(await atomic("count", `${tagged}global_conn`)).toEqual([1, 3, "SUCCESS"]);
    expect(await atomic("count", "ws:global_conn")).toEqual([1, 0, "SUCCESS"]);
    expect(await atomic("release", `${tagged}pod_conn:pod-x`, ["c1", "p1"])).toEqual([1, 2, "SUCCESS"]);
    for (const key of ["ws:{c1//nowhere/}:global_conn", "ws:{c2//ws/}:global_conn", "ws:{}:global_conn"]) {
      expect(await atomic("count", key)).toMatchObject({ error: "invalid_argument", field: "key" });
    }
  });

  it("accepts and returns plain text as well", async () => {
    expect(await text("/redis/atomic", "acquire ws:pod_conn:pod-x 2 c1 p1\n")).toBe("1 1 SUCCESS\n");
    expect(await text("/redis/atomic", "count ws:pod_conn:pod-x")).toBe("1 1 SUCCESS\n");
  });

  const pod = "ws:pod_conn:p";
  const many = Array.from({ length: 502 }, () => "c1");
  it.each([
    ["operation", { operation: "EVAL", key: pod, args: ["return 1"] }],
    ["operation", { operation: "get", key: pod }],
    ["operation", { key: pod }],
    ["key", { operation: "acquire", key: "ratelimit:{c}:app:video", args: [1, "c1", "p1"] }],
    ["key", { operation: "acquire", key: "ws:pod_conn:", args: [1, "c1", "p1"] }],
    ["key", { operation: "acquire", key: "ws:pod_conn:a b", args: [1, "c1", "p1"] }],
    ["key", { operation: "acquire", key: "ws:pod_conn:a}{b", args: [1, "c1", "p1"] }],
    ["key", { operation: "count", key: "ws:clock" }],
    ["key", { operation: "count", key: "ws:released" }],
    ["key", { operation: "heartbeat", key: "ws:proxy:a b:heartbeat" }],
    ["key", { operation: "release", key: "ws:global_conn", args: ["c1", "p1"] }],
    ["key", { operation: "acquire", args: [1, "c1", "p1"] }],
    ["args", { operation: "acquire", key: pod, args: [1, "c1"] }],
    ["args", { operation: "acquire", key: pod, args: "c1" }],
    ["args", { operation: "count", key: pod, args: ["x"] }],
    ["args", { operation: "renew", key: pod, args: many }],
    ["args[0]", { operation: "acquire", key: pod, args: [-1, "c1", "p1"] }],
    ["args[0]", { operation: "acquire", key: pod, args: [1.5, "c1", "p1"] }],
    ["args[0]", { operation: "acquire", key: pod, args: ["1e3", "c1", "p1"] }],
    ["args[0]", { operation: "acquire", key: pod, args: [1e308, "c1", "p1"] }],
    ["args[0]", { operation: "acquire", key: pod, args: ["NaN", "c1", "p1"] }],
    ["args[1]", { operation: "acquire", key: pod, args: [1, "a/b", "p1"] }],
    ["args[2]", { operation: "acquire", key: pod, args: [1, "c1", ""] }],
    ["args[1]", { operation: "renew", key: pod, args: ["p1", "{}"] }],
    ["args[0]", { operation: "renew", key: pod, args: [] }],
    ["args[0]", { operation: "acquire", key: pod, args: [null, "c1", "p1"] }],
    ["limit", { operation: "acquire", key: pod, args: [1, "c1", "p1"], limit: 9 }],
  ])("rejects invalid calls, and names the field: %s", async (field, body) => {
    const response = await send("/redis/atomic", body);
    const { error, reason, field: named } = await jsonOf(response);
    expect([response.status, error, named]).toEqual([400, "invalid_argument", field]);
    expect(reason).toContain(field);
    expect(await total()).toBe(0);
    expect((await slots.counts([], 30_000)).rejected).toBe(0);
  });
});

describe("invalid input", () => {
  const long = "x".repeat(129);
  it.each([
    ["proxy", asked("c1", { proxy: undefined })],
    ["proxy", asked("c1", { proxy: 7 })],
    ["proxy", asked("c1", { proxy: "a b" })],
    ["proxy", asked("c1", { proxy: long })],
    ["connection", asked("")],
    ["connection", asked("a/b")],
    ["connection", asked("a\u0000b")],
    ["app", asked("c1", { app: "{}" })],
    ["pods", asked("c1", { pods: [] })],
    ["pods", asked("c1", { pods: undefined })],
    ["pods", asked("c1", { pod: "pod-1" })],
    ["pods", asked("c1", { pods: Array.from({ length: 501 }, () => "p") })],
    ["pods[1]", asked("c1", { pods: ["pod-1", "pod 2"] })],
    ["pods[0]", asked("c1", { pods: [null] })],
    ["route", asked("c1", { route: "/api/" })],
    ["route", asked("c1", { route: "{}" })],
    ["reclaim", asked("c1", { reclaim: 1 })],
    ["memory", asked("c1", { memory: -1 })],
    ["memory", asked("c1", { memory: 1e308 })],
    ["limits", asked("c1", { limits: { max_per_pod: 1_000 } })],
    ["max_per_pod", asked("c1", { max_per_pod: 1_000 })],
    ["body", []],
    ["line 1", "p1\npod-1"],
    ["line 1", "p1 c1 chat - 0 0 more\npod-1"],
    ["pods", "p1 c1 chat"],
    ["reclaim", "p1 c1 chat - yes\npod-1"],
    ["memory", "p1 c1 chat - 0 -5\npod-1"],
    ["connection", "p1 a/b\npod-1"],
  ])("is rejected by acquire, which names the field: %s", async (field, body) => {
    const response = await send(on("acquire"), body);
    const { error, reason, field: named } = await jsonOf(response);
    expect([response.status, error, named]).toEqual([400, "invalid_argument", field]);
    expect(reason).toContain(field);
    expect(await total()).toBe(0);
  });

  it.each([
    ["proxy", { connections: [] }],
    ["connections", { proxy: "p1", connections: {} }],
    ["connections[1].pod", { proxy: "p1", connections: [{ connection: "c1", pod: "a" }, { connection: "c2" }] }],
    ["connections[0].connection", { proxy: "p1", connections: [{ connection: "{}", pod: "a" }] }],
    ["line 3", "p1\nc1 pod-1\nc2\n"],
    ["line 2", "p1\nc1 pod-1 chat /ws/ more\n"],
    ["line 1", "p1 /ws/ more\n"],
    ["route", "p1 p2\n"],
    ["route", { proxy: "p1", route: "/a b/" }],
    ["connections[0].route", "p1\nc1 pod-1 chat more\n"],
    ["connections[0].route", { proxy: "p1", connections: [{ connection: "c1", pod: "a", route: "" }] }],
    ["connections[0].app", "p1\nc1 pod-1 {}\n"],
  ])("is rejected by renew and release, which name the field: %s", async (field, body) => {
    for (const name of ["renew", "release"]) {
      const response = await send(on(name), body);
      expect([response.status, (await jsonOf(response)).field]).toEqual([400, field]);
    }
  });

  it("is rejected if the body is malformed JSON or has another content type; fields of __proto__ do not count", async () => {
    const broken = await send(on("acquire"), "{", { "content-type": "application/json" });
    expect([broken.status, (await jsonOf(broken)).field]).toEqual([400, "body"]);
    expect((await send(on("acquire"), "<a/>", { "content-type": "text/xml" })).status).toBe(415);
    const proto = await send(on("acquire"), '{"__proto__": {"proxy": "p1"}}', { "content-type": "application/json" });
    expect(proto.status).toBe(400);
  });
});

describe("access and failures", () => {
  it("only the plane token is accepted", async () => {
    for (const authorization of ["", "Bearer wrong-token-0123456789", `Bearer ${ADMIN_TOKEN}`]) {
      for (const path of [on("acquire"), on("renew"), on("release"), on("counts"), "/redis/atomic"]) {
        const response = await send(path, asked("c1"), { authorization });
        expect([401, 403, 429]).toContain(response.status);
      }
    }
    expect(await total()).toBe(0);
  });

  it("without a route that has connections it replies 404", async () => {
    limits = new Map();
    const response = await send(on("acquire"), asked("c1"));
    expect([response.status, (await jsonOf(response)).reason]).toEqual([404, "no_connections"]);
  });

  it("a store failure is 503, never a refusal", async () => {
    store.run = async () => {
      throw new StoreError("timeout", "no answer");
    };
    for (const path of [on("acquire"), on("renew"), on("release")]) {
      const body = path.endsWith("acquire") ? asked("c1") : { proxy: "p1" };
      const response = await send(path, body);
      expect([response.status, (await jsonOf(response)).error]).toEqual([503, "store_unavailable"]);
    }
    expect((await send("/redis/atomic", "acquire ws:pod_conn:a 1 c1 p1")).status).toBe(503);
  });

  it("is described in the OpenAPI document", async () => {
    const document = (await (await control.call("GET", "/openapi.json")).json()) as {
      paths: Record<string, { post: unknown }>;
    };
    for (const name of ["acquire", "renew", "release", "counts"]) expect(document.paths[on(name)]?.post).toBeDefined();
    expect(document.paths["/redis/atomic"]?.post).toBeDefined();
  });
});
