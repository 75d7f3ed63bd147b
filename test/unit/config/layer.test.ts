/** The store layer: overrides the file, is overridden by the environment, and applies to all nodes. */
import { afterEach, describe, expect, it } from "vitest";
import { describeProblem } from "../../../src/config/problem.js";
import { configKey, operationKey } from "../../../src/core/keys.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import type { Store } from "../../../src/store/store.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { waitFor } from "../../support/wait-for.js";
import { CLUSTER, type LiveNode, liveNodes, type StartOptions } from "./live-node.js";

const nodes = liveNodes();
afterEach(() => nodes.close());

const all = { source: "all", force: false } as const;
const SECOND_MS = 1_000;

function start(yaml: string, options: Partial<StartOptions> = {}): Promise<LiveNode> {
  return nodes.start({ yaml, store: createEmbeddedStore(), clock: createSimulatedClock(), ...options });
}

/** As somebody with a Redis client would: past all checks. */
function put(store: Store, text: string): Promise<unknown> {
  const operation = operationKey(CLUSTER, `${Math.random()}`);
  return store.run("config-write", [configKey(CLUSTER), operation], [-1, text]);
}

async function complaints({ live }: LiveNode, layer: Record<string, unknown>): Promise<string[]> {
  const result = await live.putLayer(layer);
  if (result.status !== "refused") throw new Error(`it was ${result.status}`);
  return result.problems.map(describeProblem);
}

/** Whose messages all get lost. */
function deaf(store: Store): Store {
  return { ...store, publish: async () => {} };
}

/** A store that can go away, as its callers see it. */
function leaving(store: Store): { store: Store; away: boolean } {
  const gone = () => Promise.reject(new StoreError("unavailable", "on purpose"));
  const here = {
    away: false,
    store: {
      ...store,
      run: (...call: Parameters<Store["run"]>) => (here.away ? gone() : store.run(...call)),
      publish: (...call: Parameters<Store["publish"]>) => (here.away ? gone() : store.publish(...call)),
      subscribe: (...call: Parameters<Store["subscribe"]>) => (here.away ? gone() : store.subscribe(...call)),
    },
  };
  return here;
}

describe("the layers", () => {
  it("override each other: defaults, file, store, environment", async () => {
    const env = { RATELIMIT_BATCH_THRESHOLD: "4", LOG_LEVEL: "debug" };
    const { live } = await start("lease: { refill_threshold: 0.5, sync_interval_ms: 20, batch_threshold: 20 }", {
      env,
    });
    await live.putLayer({ lease: { sync_interval_ms: 30, batch_threshold: 30 }, log: { level: "warn" } });
    expect(live.current().lease).toMatchObject({
      ...{ reserve: 1000, refill_threshold: 0.5, sync_interval_ms: 30, batch_threshold: 4 },
    });
    expect(live.current().log.level).toBe("debug");
  });

  it("merge sections by name, and replace lists and single values", async () => {
    const { live } = await start(`
apps: { a: { guaranteed: 10, burst: 20, priority: 1 }, b: {} }
upstreams: { x: { targets: [x:1, x:2], active: { path: /up } } }
routes: [{ path: /a, upstream: x }, { path: /b, upstream: x }]
lease:
`);
    const layer = {
      apps: { a: { burst: 30 }, c: { guaranteed: 5 } },
      upstreams: { x: { targets: ["y:1"], active: { interval_ms: 500 } } },
      routes: [{ path: "/c", upstream: "x" }],
      lease: { reserve: 5 },
      timeouts: null,
    };
    expect((await live.putLayer(layer)).status).toBe("reloaded");
    const { apps, upstreams, routes, lease } = live.current();
    expect(apps.a).toMatchObject({ guaranteed: 10, burst: 30, priority: 1 });
    expect(Object.keys(apps)).toEqual(["a", "b", "c"]);
    expect(upstreams.x).toMatchObject({ targets: ["y:1"], active: { path: "/up", interval_ms: 500 } });
    expect(routes).toEqual([{ path: "/c", upstream: "x", limits: [] }]);
    expect(lease.reserve).toBe(5);
  });

  it("merge a profile that one names and the other changes", async () => {
    const { live } = await start("apps: { a: { profile: iops } }");
    await live.putLayer({ apps: { a: { profile: { max_cost: 7 } } } });
    expect(live.current().apps.a?.profile).toMatchObject({ based_on: "iops", max_cost: 7 });
  });

  it("fall back to the file when the store layer is emptied", async () => {
    const { live } = await start("fail_open_tokens: 5");
    const version = live.version();
    await live.putLayer({ fail_open_tokens: 7 });
    expect(live.version()).not.toBe(version);
    expect((await live.putLayer({})).status).toBe("reloaded");
    expect(live.current().fail_open_tokens).toBe(5);
    expect(live.version()).toBe(version);
    expect(await live.layer()).toEqual({ revision: 2, config: {} });
  });

  it("do not replace variables in the store layer", async () => {
    const node = await start("", { env: { APP_HEADER: "X-Leak" } });
    expect(await complaints(node, { identity: { app_header: `\${APP_HEADER}` } })).toHaveLength(1);
  });
});

describe("an invalid layer", () => {
  it("is reported with all its problems, and is not written", async () => {
    const node = await start("apps: { a: { burst: 20 } }");
    const before = node.live.current();
    const layer = {
      apps: { a: { burst: 0, bursst: 1 }, "b{}": {} },
      upstreams: { x: { connections: 1 } },
      routes: [{ path: "/", upstream: "y" }],
      leese: {},
      log: "loud",
    };
    expect(await complaints(node, layer)).toEqual([
      "leese (store layer): unknown option; did you mean lease?",
      "apps.a.burst (store layer): must be a whole number from 1 to 1000000000 (is 0)",
      "apps.a.bursst (store layer): unknown option; did you mean burst?",
      'apps["b{}"] (store layer): the name must be 1 to 128 of A–Z a–z 0–9 . _ : -',
      "upstreams.x.targets (store layer): is required unless dns is set",
      'log (store layer): must be a section with level, refusals_per_second, slow_decision_ms (is "loud")',
    ]);
    expect(node.live.current()).toBe(before);
    expect(await node.live.layer()).toEqual({ revision: 0, config: {} });
    expect(node.live.lastError()).toBeUndefined();
  });

  it("is distinguished from the file and the environment", async () => {
    const node = await start("apps: { a: {} }\nidentity: { api_keys: { a: [key-of-the-file-0] } }");
    const layer = {
      apps: { b: {} },
      identity: { api_keys: { b: ["key-of-the-file-0"] } },
      routes: [{ path: "/", upstream: "x" }],
    };
    expect(await complaints(node, layer)).toEqual([
      'routes[0].upstream (store layer): is not one of upstreams; none are configured (is "x")',
      "identity.api_keys[1][0] (store layer): is also a key of a",
    ]);
  });

  it.each([
    [{ node_id: "a" }, "node_id"],
    [{ listen: "0.0.0.0:1" }, "listen"],
    [{ workers: 1 }, "workers"],
    [{ store: "redis://user:password@a:1" }, "store"],
    [{ store_pool_size: 1 }, "store_pool_size"],
    [{ control: { admin_token: "x".repeat(20) } }, "control"],
    [{ control: null }, "control"],
    [{ cluster: { id: "other", rate: 5 } }, "cluster.id"],
  ])("like %j sets an option that every node needs itself", async (layer, option) => {
    expect(await complaints(await start(""), layer)).toEqual([
      `${option} (store layer): cannot be set in the store: every node needs its own value`,
    ]);
  });

  it("cannot change the prototype of objects", async () => {
    const node = await start("");
    const layer = JSON.parse('{"apps":{"__proto__":{"burst":1}},"routes":[{"__proto__":{}}]}') as Record<
      string,
      unknown
    >;
    expect(await complaints(node, layer)).toEqual([
      "apps.__proto__ (store layer): is not an allowed name",
      "routes[0].__proto__ (store layer): is not an allowed name",
    ]);
  });

  it("is rejected if it is too large or nested too deeply", async () => {
    const node = await start("");
    const apps = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`application-${i}`, {}]));
    expect(await complaints(node, { apps })).toEqual([
      expect.stringMatching(/^store layer: has \d+ bytes; the maximum is 1048576$/),
    ]);
    let deep: unknown = {};
    for (let i = 0; i < 100_000; i++) deep = [deep];
    expect(await complaints(node, { routes: deep })).toEqual(["store layer: is nested too deeply"]);
  });

  it("may have one mebibyte", async () => {
    const { live } = await start("");
    const apps = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`application-${i}`, { burst: i + 1 }]));
    expect(await live.putLayer({ apps })).toMatchObject({ status: "reloaded", appsAffected: 20_000 });
    expect((await live.layer()).config).toEqual({ apps });
  });

  const garbage: [string, string][] = [
    ["{", "store layer: is not JSON"],
    ["[]", "store layer: must be an object of options"],
    ["null", "store layer: must be an object of options"],
    ['"text"', "store layer: must be an object of options"],
    [`${"[".repeat(50_000)}${"]".repeat(50_000)}`, "store layer: must be an object of options"],
    [`{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}`, "store layer: is nested too deeply"],
    ['{"apps":{"a":{"burst":-1}}}', "apps.a.burst (store layer): must be a whole number from 1 to 1000000000 (is -1)"],
    ['{"listen":"0.0.0.0:1"}', "listen (store layer): cannot be set in the store: every node needs its own value"],
  ];

  it.each(garbage)("written directly to the store (%.20s) changes nothing and is reported", async (text, problem) => {
    const store = createEmbeddedStore();
    const clock = createSimulatedClock();
    const { live, write } = await start("fail_open_tokens: 5", { store, clock });
    await live.putLayer({ fail_open_tokens: 7 });
    const before = live.current();
    await put(store, text);
    await clock.advance(5 * SECOND_MS);
    expect(live.current()).toBe(before);
    expect(live.lastError()).toBe(problem);
    expect(await live.reload({ source: "store", force: true })).toMatchObject({ status: "refused" });
    // The file can still be changed, over the layer that was good.
    write("fail_open_tokens: 5\nlease: { reserve: 5 }");
    expect((await live.reload({ source: "file", force: false })).status).toBe("reloaded");
    expect(live.current()).toMatchObject({ fail_open_tokens: 7, lease: { reserve: 5 } });
    expect(live.lastError()).toBe(problem);
    expect((await live.putLayer({ fail_open_tokens: 8 })).status).toBe("reloaded");
    expect(live.lastError()).toBeUndefined();
  });

  it("does not prevent the start of a service", async () => {
    const store = createEmbeddedStore();
    await put(store, "{");
    const { live } = await start("fail_open_tokens: 5", { store });
    expect(live.current().fail_open_tokens).toBe(5);
    expect(live.lastError()).toBe("store layer: is not JSON");
    await expect(live.layer()).rejects.toThrow("store layer: is not JSON");
  });

  it("is applied once the file makes it valid, without being written again", async () => {
    const store = createEmbeddedStore();
    const clock = createSimulatedClock();
    const { live, write } = await start("", { store, clock });
    await put(store, '{"routes":[{"path":"/","upstream":"x"}]}');
    await clock.advance(5 * SECOND_MS);
    expect(live.lastError()).toBe(
      'routes[0].upstream (store layer): is not one of upstreams; none are configured (is "x")',
    );
    write("upstreams: { x: { targets: [x:1] } }");
    await live.reload({ source: "file", force: false });
    await clock.advance(5 * SECOND_MS);
    expect(live.current().routes).toHaveLength(1);
    expect(live.lastError()).toBeUndefined();
  });
});

describe("several nodes", () => {
  it("all apply the layer, and have the same version", async () => {
    const store = createEmbeddedStore();
    const [one, two, three] = [
      await start("node_id: a", { store }),
      await start("node_id: b", { store }),
      await start("workers: 3", { store }),
    ];
    await one!.live.putLayer({ fail_open_tokens: 7 });
    for (const { live, changes } of [two!, three!]) {
      await waitFor("the layer", () => live.current().fail_open_tokens === 7);
      expect(live.version()).toBe(one!.live.version());
      expect(changes).toHaveLength(1);
    }
  });

  it("read their own files when one of them reloads", async () => {
    const store = createEmbeddedStore();
    const [one, two] = [await start("", { store }), await start("", { store })];
    for (const { write } of [one!, two!]) write("fail_open_tokens: 7");
    await one!.live.reload(all);
    await waitFor("the file", () => two!.live.current().fail_open_tokens === 7);
  });

  it("apply it within five seconds when the message was lost", async () => {
    const store = createEmbeddedStore();
    const clock = createSimulatedClock();
    const one = await start("", { store: deaf(store) });
    const two = await start("", { store, clock });
    await clock.advance(0);
    await one.live.putLayer({ fail_open_tokens: 7 });
    await clock.advance(4_999);
    expect(two.live.current().fail_open_tokens).toBeUndefined();
    await clock.advance(1);
    expect(two.live.current().fail_open_tokens).toBe(7);
  });

  it("write one after the other: an outdated revision is a conflict", async () => {
    const store = createEmbeddedStore();
    const [one, two] = [await start("", { store: deaf(store) }), await start("", { store: deaf(store) })];
    const { revision } = await two!.live.layer();
    const results = await Promise.all([
      one!.live.putLayer({ fail_open_tokens: 7 }, revision),
      two!.live.putLayer({ fail_open_tokens: 8 }, revision),
    ]);
    expect(results.map(({ status }) => status).sort()).toEqual(["conflict", "reloaded"]);
    expect(results.find(({ status }) => status === "conflict")).toEqual({ status: "conflict", revision: 1 });
    expect((await two!.live.layer()).revision).toBe(1);
  });

  it("apply no changes once they are closed", async () => {
    const store = createEmbeddedStore();
    const [one, two] = [await start("", { store }), await start("", { store })];
    await two!.live.close();
    await one!.live.putLayer({ fail_open_tokens: 7 });
    await new Promise(setImmediate);
    expect(two!.live.current().fail_open_tokens).toBeUndefined();
  });
});

describe("without the store", () => {
  it("a service starts, and applies the layer when the store is back", async () => {
    const embedded = createEmbeddedStore();
    const here = leaving(embedded);
    const clock = createSimulatedClock();
    here.away = true;
    await put(embedded, '{"fail_open_tokens":7}');
    const { live } = await start("fail_open_tokens: 5", { store: here.store, clock });
    expect(live.current().fail_open_tokens).toBe(5);
    here.away = false;
    await clock.advance(5 * SECOND_MS);
    expect(live.current().fail_open_tokens).toBe(7);
  });

  it("a reload keeps the last known layer, and logs it", async () => {
    const here = leaving(createEmbeddedStore());
    const { live, write, logged } = await start("fail_open_tokens: 5", { store: here.store });
    await live.putLayer({ fail_open_tokens: 7 });
    here.away = true;
    write("lease: { reserve: 5 }");
    expect((await live.reload(all)).status).toBe("reloaded");
    expect(live.current()).toMatchObject({ fail_open_tokens: 7, lease: { reserve: 5 } });
    expect(logged.filter((line) => line.startsWith("warn the store is not available"))).toHaveLength(1);
    expect(live.lastError()).toBeUndefined();
  });

  it("a reload of the store layer is rejected, and writes fail", async () => {
    const here = leaving(createEmbeddedStore());
    const clock = createSimulatedClock();
    const { live } = await start("", { store: here.store, clock });
    here.away = true;
    expect(await live.reload({ source: "store", force: true })).toMatchObject({ status: "refused" });
    expect(live.lastError()).toBeUndefined();
    const put = expect(live.putLayer({ fail_open_tokens: 7 })).rejects.toMatchObject({ kind: "unavailable" });
    await clock.advance(10 * SECOND_MS);
    await put;
    expect(live.current().fail_open_tokens).toBeUndefined();
  });
});
