/** Loading a valid configuration: defaults, file and environment, and the mapping to options. */
import { describe, expect, it } from "vitest";
import { packConfig, unpackConfig } from "../../../src/config/equal-apps.js";
import { loadConfig, readConfig } from "../../../src/config/load.js";
import { appLimits, clusterOptions, identityOptions, leaseOptions } from "../../../src/config/options/limiter.js";
import { describeProblem } from "../../../src/config/problem.js";
import type { Config } from "../../../src/config/schema.js";
import { configVersion } from "../../../src/config/version.js";
import { standardProfile } from "../../../src/core/cost.js";

const example = new URL("../../../examples/gateway.yaml", import.meta.url).pathname;
const tokens = { TOLLGATE_ADMIN_TOKEN: "a".repeat(20), TOLLGATE_PLANE_TOKEN: "p".repeat(20) };

function good(yaml: string, env: Record<string, string> = {}): Config {
  const { config, problems } = readConfig(yaml, env);
  expect(problems.map(describeProblem)).toEqual([]);
  return config as Config;
}

describe("without a file", () => {
  it("every option has its default", () => {
    const config = loadConfig({ env: {} }).config as Config;
    expect(config).toMatchObject({ listen: "0.0.0.0:8080", store: "embedded", control: { listen: "127.0.0.1:9145" } });
    expect(clusterOptions(config)).toEqual({
      id: "cluster-01",
      capacity: 1e6,
      rate: 5e5,
      nodeTtlMs: 10_000,
      shards: 1,
      planes: [],
    });
    expect(leaseOptions(config)).toMatchObject({ reserve: 1000, refillThreshold: 0.2, syncIntervalMs: 100 });
    expect(appLimits(config)).toEqual([
      {
        ...{ id: "default", guaranteed: 1000, burst: 2000, priority: 2, borrow: false },
        ...{ profile: standardProfile, onStoreFailure: "open", dryRun: false, unknownLength: "delay" },
      },
    ]);
  });

  it("clients are not trusted, and slow or many requests of one client are limited", () => {
    const { identity, timeouts, request_limits: limits } = loadConfig({ env: {} }).config as Config;
    expect(identity).toMatchObject({ trusted_hops: [], forward_identity: true });
    expect(timeouts).toMatchObject({
      headers_ms: 15_000,
      request_ms: 3_600_000,
      body_rate_ms: 10_000,
      queue_ms: 5_000,
    });
    expect(limits).toMatchObject({ body_rate: 240, requests_per_client: 256, requests_per_app: 4_096 });
  });

  it("the configuration is frozen", () => {
    const config = loadConfig({ env: {} }).config as Config;
    expect(() => {
      (config.lease as { reserve: number }).reserve = 1;
    }).toThrow(TypeError);
  });
});

describe("a file", () => {
  it("like the example of the design is accepted", () => {
    const { config, problems } = loadConfig({ file: example, env: tokens });
    expect(problems).toEqual([]);
    expect(config).toMatchObject({
      node_id: "gw-01",
      control: { admin_token: tokens.TOLLGATE_ADMIN_TOKEN, plane_token: tokens.TOLLGATE_PLANE_TOKEN },
      apps: { "video-service": { guaranteed: 10000, burst: 20000, priority: 1, borrow: true } },
      routes: [{ path: "/api/", upstream: "backend" }, { connections: { max_per_pod: 2, lease_s: 30 } }],
    });
  });

  it("may leave a section empty", () => {
    expect(good("lease:\napps:\n").lease.reserve).toBe(1000);
  });

  it("changes single prices of a profile", () => {
    const config = good("apps: { a: { profile: { based_on: bandwidth, base: { GET: 7 }, max_cost: 50 } } }");
    const [app] = appLimits(config);
    expect(app?.profile).toMatchObject({ base: { GET: 7, PUT: 1 }, quantum: 1024, bandwidth: 1, maxCost: 50 });
  });

  it("gives a small app a burst of at least one token", () => {
    expect(appLimits(good("apps: { a: { guaranteed: 0.1 } }"))[0]?.burst).toBe(1);
  });

  it("that refuses unknown apps has no default app", () => {
    expect(appLimits(good("unknown_apps: reject\napps: { a: {} }")).map(({ id }) => id)).toEqual(["a"]);
  });

  it("is mapped to keys, trusted hops and headers", () => {
    const settings = identityOptions(
      good(`apps: { a: {} }
identity: { app_header: X-Team, untrusted_headers: reject, api_keys: { a: [${"k".repeat(16)}] } }`),
    );
    expect(settings).toMatchObject({
      appHeader: "X-Team",
      apiKeys: { ["k".repeat(16)]: "a" },
      rules: { refuseUntrustedHeaders: true, refuseUnknownApps: false },
    });
  });
});

describe("the version of a configuration", () => {
  const version = (yaml: string) => configVersion(good(yaml));

  it("changes with every option that all nodes must share", () => {
    const key = "k".repeat(16);
    const different = [
      "apps: { a: {} }",
      "apps: { a: { burst: 5 } }",
      "apps: { a: { burst: 6 } }",
      `apps: { a: {} }\nidentity: { api_keys: { a: [${key}] } }`,
      `apps: { a: {} }\nidentity: { api_keys: { a: [${key}x] } }`,
      `control: { plane_token: ${key} }`,
      "lease: { reserve: 5 }",
      "upstreams: { a: { targets: [a:1] } }",
      "timeouts: { connect_ms: 5 }",
      "cluster: { id: other }",
    ].map(version);
    expect(new Set(different).size).toBe(different.length);
  });

  it("does not depend on names, addresses and processes of nodes", () => {
    const here =
      "node_id: a\nlisten: 127.0.0.1:1\nworkers: 1\nstore: redis://:secret@a:1\ncontrol: { listen: 127.0.0.1:2 }";
    const there = "node_id: b\nlisten: 127.0.0.1:3\nworkers: 2\nstore: embedded\nstore_pool_size: 7";
    expect(version(here)).toBe(version(there));
  });

  it("does not depend on the admin token, which data planes do not have", () => {
    const planeToken = "p".repeat(16);
    expect(version(`control: { admin_token: ${"a".repeat(16)}, plane_token: ${planeToken} }`)).toBe(
      version(`control: { plane_token: ${planeToken} }`),
    );
  });

  it("does not depend on the order of options", () => {
    expect(version("apps: { a: { burst: 5 }, b: {} }")).toBe(version("apps: { b: {}, a: { burst: 5 } }"));
  });
});

describe("a variable in the file", () => {
  it("is replaced, alone or within a string, with a default if it is not set", () => {
    const yaml = `node_id: \${A}-\${B:-two}\nworkers: \${N}\ncontrol: { plane_token: '\${EMPTY:-}' }`;
    expect(good(yaml, { A: "one", N: "3", EMPTY: "" })).toMatchObject({ node_id: "one-two", workers: 3 });
  });

  it("cannot add options", () => {
    const { problems } = readConfig(`node_id: \${A}`, { A: "x\nlisten: 0.0.0.0:1" });
    expect(problems.map(({ path }) => path)).toEqual(["node_id"]);
    expect(describeProblem(problems[0]!)).not.toContain("listen");
  });

  it("is literal with two dollar signs", () => {
    const { problems } = readConfig(`node_id: $\${A}`, {});
    expect(problems.map(({ reason }) => reason)).toEqual(["must be 1 to 100 of A–Z a–z 0–9 . _ : -"]);
  });
});

describe("the environment", () => {
  it("overrides the file", () => {
    const config = good("lease: { reserve: 5 }\nstore: redis://one:1/3", {
      ...{ REDIS_HOST: "two", REDIS_PORT: "2", REDIS_PASSWORD: "p@ss/word", REDIS_TIMEOUT: "250" },
      ...{ RATELIMIT_L3_RESERVE: "6", RATELIMIT_REFILL_THRESHOLD: "0.5", RATELIMIT_SYNC_INTERVAL: "50" },
      ...{ RATELIMIT_BATCH_THRESHOLD: "7", RATELIMIT_FAIL_OPEN_TOKENS: "8", LOG_LEVEL: "debug" },
      ...{ REDIS_POOL_SIZE: "50", METRICS_ENABLED: "false" },
    });
    expect(config).toMatchObject({
      store: "redis://:p%40ss%2Fword@two:2/3",
      lease: { reserve: 6, refill_threshold: 0.5, sync_interval_ms: 50, batch_threshold: 7, timeout_ms: 250 },
      fail_open_tokens: 8,
      log: { level: "debug" },
      store_pool_size: 50,
      metrics: { enabled: false },
    });
  });

  it.each([
    [{ REDIS_HOST: "redis" }, "redis://redis:6379"],
    [{ REDIS_PORT: "7000" }, "redis://127.0.0.1:7000"],
    [{ REDIS_HOST: "::1" }, "redis://[::1]:6379"],
    [{ REDIS_PASSWORD: "secret" }, "embedded"],
    [{ REDIS_HOST: "" }, "embedded"],
  ])("%j changes the embedded store to %s", (env, store) => {
    expect(good("", env).store).toBe(store);
  });

  it("can set the password of a cluster, but not a host", () => {
    const yaml = "store: redis-cluster://a:1,b:2";
    expect(good(yaml, { REDIS_PASSWORD: "x" }).store).toBe("redis-cluster://:x@a:1,b:2");
    expect(readConfig(yaml, { REDIS_HOST: "c" }).problems.map(describeProblem)).toEqual([
      "REDIS_HOST: cannot replace one of several servers: store is a redis-cluster:// URL",
    ]);
  });

  it("completes the url of a store that has only a user name", () => {
    const yaml = "store: rediss://tollgate@a:1";
    expect(good(yaml, { REDIS_PASSWORD: "p@ss/word" }).store).toBe("rediss://tollgate:p%40ss%2Fword@a:1");
    expect(readConfig(yaml, {}).problems.map(({ reason }) => reason)).toEqual([
      expect.stringContaining("a user name but no password"),
    ]);
  });

  it("is reported instead of the file when it is invalid", () => {
    const env = { RATELIMIT_L3_RESERVE: "-1", LOG_LEVEL: "loud\u001b", REDIS_PORT: "tcp://10.0.0.1:6379" };
    expect(readConfig("lease: { reserve: 5 }", env).problems.map(describeProblem)).toEqual([
      "REDIS_PORT: must be a whole number from 1 to 65535; Kubernetes sets this for a service called redis",
      'RATELIMIT_L3_RESERVE: must be a whole number from 1 to 1000000 (is "-1")',
      'LOG_LEVEL: must be fatal or error or warn or info or debug or trace or silent (is "loud\\u001b")',
    ]);
  });
});

describe("apps with equal limits", () => {
  const yaml = "apps: { a: { guaranteed: 5 }, 7: { priority: 0 }, b: { guaranteed: 5, profile: standard }, c: {} }";

  it("share one object, and all apps share equal profiles", () => {
    const { a, b, c } = good(yaml).apps;
    expect(a).toBe(b);
    expect(c).not.toEqual(a);
    expect(c?.profile).toBe(a?.profile);
  });

  it("are sent once to another process, which gets the same configuration", () => {
    const config = good(yaml);
    const message = JSON.stringify(packConfig(config));
    expect(message.match(/"guaranteed":5\b/g)).toHaveLength(1);
    const received = unpackConfig(JSON.parse(message));
    expect(received).toEqual(config);
    expect(Object.keys(received.apps)).toEqual(Object.keys(config.apps));
    expect(received.apps.a).toBe(received.apps.b);
  });
});
