/** Live reload: only valid configurations are applied, as a whole, and rejected ones are reported. */
import { readFileSync, rmSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import type { ReloadResult } from "../../../src/config/live/live.js";
import { describeProblem } from "../../../src/config/problem.js";
import { needRestart } from "../../../src/config/reach.js";
import type { Config } from "../../../src/config/schema.js";
import { configVersion } from "../../../src/config/version.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { waitFor } from "../../support/wait-for.js";
import { badEnvironment, badFile, SECRET, said } from "./bad-files.js";
import { type LiveNode, liveNodes, type StartOptions } from "./live-node.js";

const nodes = liveNodes();
afterEach(() => nodes.close());

const all = { source: "all", force: false } as const;
const forced = { source: "all", force: true } as const;
const limits = (burst: number) => `apps: { a: { guaranteed: 10, burst: ${burst} } }\n`;

/** Time stands still: only calls and messages change anything. */
function start(yaml: string, options: Partial<StartOptions> = {}): Promise<LiveNode> {
  return nodes.start({ yaml, store: createEmbeddedStore(), clock: createSimulatedClock(), ...options });
}

function complaints(result: ReloadResult | { status: "conflict" }): string[] {
  if (result.status !== "refused") throw new Error(`it was ${result.status}`);
  return result.problems.map(describeProblem);
}

describe("an invalid file", () => {
  it.each(Object.entries(said))(
    "%s changes nothing in a running service, and the reason is logged",
    async (name, expected) => {
      const { live, write, changes, logged } = await start(limits(20), { env: badEnvironment });
      const before = live.current();
      write(readFileSync(badFile(name), "utf8"));
      expect(complaints(await live.reload(forced))).toEqual(expected);
      expect(live.current()).toBe(before);
      expect(changes).toEqual([]);
      expect(live.lastError()).toBe(expected.join("; "));
      expect(logged.join("\n")).not.toContain(SECRET);
    },
  );

  it("is no longer reported after the next valid one", async () => {
    const { live, write } = await start(limits(20));
    write("apps: { a: { burst: 0 } }");
    expect((await live.reload(all)).status).toBe("refused");
    expect(live.lastError()).toContain("apps.a.burst");
    write(limits(30));
    expect((await live.reload(all)).status).toBe("reloaded");
    expect(live.lastError()).toBeUndefined();
  });

  it("that is empty, because it is being written, is rejected", async () => {
    const { live, write, file } = await start(limits(20));
    write("\n");
    expect(complaints(await live.reload(forced))).toEqual([`${file}: is empty`]);
    expect(live.current().apps.a?.burst).toBe(20);
  });

  it("that was removed changes nothing", async () => {
    const { live, file } = await start(limits(20));
    rmSync(file);
    expect(complaints(await live.reload(all))[0]).toContain("cannot be read");
    expect(live.current().apps.a?.burst).toBe(20);
  });

  it("does not prevent changes of the store layer", async () => {
    const store = createEmbeddedStore();
    const one = await start(limits(20), { store });
    const two = await start(limits(20), { store });
    two.write("apps: [");
    await two.live.reload(all);
    await one.live.putLayer({ fail_open_tokens: 7 });
    await waitFor("the layer", () => two.live.current().fail_open_tokens === 7);
    expect(two.live.lastError()).toContain("line 1");
  });
});

describe("a valid file", () => {
  it("is applied immediately, frozen, and every handler is called once", async () => {
    const { live, write, changes } = await start(limits(20));
    const before = live.current();
    write(`${limits(30)}lease: { reserve: 5 }`);
    const result = await live.reload(all);
    expect(result).toEqual({
      ...{ status: "reloaded", version: live.version(), previousVersion: configVersion(before) },
      ...{ appsAffected: 1, limitsAffected: 0, restartNeeded: [] },
    });
    expect(changes).toEqual([{ config: live.current(), before }]);
    expect(live.current()).toMatchObject({ apps: { a: { burst: 30 } }, lease: { reserve: 5 } });
    expect(Object.isFrozen(live.current()) && Object.isFrozen(live.current().apps)).toBe(true);
    expect(live.version()).not.toBe(configVersion(before));
  });

  it("counts the apps that were added, removed or changed", async () => {
    const { live, write } = await start("apps: { a: {}, b: {}, c: {} }");
    write("apps: { a: {}, b: { burst: 5 }, d: {} }");
    expect(await live.reload(all)).toMatchObject({ appsAffected: 3 });
  });

  it("counts the limits that were added, removed or changed", async () => {
    const rule = (key: string, perUnit: number) =>
      `{ key: ${key}, rate_limit: { unit: second, requests_per_unit: ${perUnit} } }`;
    const yaml = (rate: string, ...rules: string[]) =>
      `limits: [{ name: a, rate: 1/s }, { name: b, rate: ${rate} }]\nrate_limits: [{ domain: d, descriptors: [${rules.join(", ")}] }]`;
    const { live, write } = await start(yaml("2/s", rule("x", 1), rule("y", 1)));
    write(yaml("3/s", rule("x", 1), rule("y", 2), rule("z", 1)));
    expect(await live.reload(all)).toMatchObject({ appsAffected: 0, limitsAffected: 3 });
    write("limits: [{ name: c, rate: 1/s }]");
    expect(await live.reload({ ...all, confirm: true })).toMatchObject({ limitsAffected: 6 });
  });

  it("without changes is not applied, unless forced", async () => {
    const { live, write, changes } = await start("apps: { a: { burst: 20 }, b: {} }");
    write("# the same\napps: { b: {}, a: { burst: 20 } }");
    expect(await live.reload(all)).toMatchObject({ status: "unchanged", version: live.version() });
    expect(changes).toEqual([]);
    expect(await live.reload(forced)).toMatchObject({ status: "reloaded", appsAffected: 0 });
    expect(changes).toHaveLength(1);
  });

  it("reaches all handlers although one of them fails", async () => {
    const { live, write, changes, logged } = await start(limits(20));
    const leave = live.onChange(() => {
      throw new Error("on purpose");
    });
    live.onChange((config) => changes.push({ config, before: config }));
    write(limits(30));
    expect((await live.reload(all)).status).toBe("reloaded");
    expect(changes).toHaveLength(2);
    expect(logged.filter((line) => line.startsWith("error"))).toHaveLength(1);
    leave();
    write(limits(40));
    await live.reload(all);
    expect(logged.filter((line) => line.startsWith("error"))).toHaveLength(1);
  });

  it("is applied in the order of the reload calls", async () => {
    const { live, write, changes } = await start(limits(1));
    const reloads = [2, 3, 4].map((burst) => {
      write(limits(burst));
      return live.reload(all);
    });
    const results = await Promise.all(reloads);
    // The file was read when their turn came: the first takes the last word, and the others find it in force.
    expect(results.map(({ status }) => status)).toEqual(["reloaded", "unchanged", "unchanged"]);
    expect(changes.map(({ config }) => config.apps.a?.burst)).toEqual([4]);
  });

  it("does not override the command line", async () => {
    const overrides = (config: Config) => ({ ...config, listen: "127.0.0.1:1", workers: 2 });
    const { live, write } = await start("workers: 1", { overrides });
    write("workers: 3\nfail_open_tokens: 7");
    expect((await live.reload(all)).status).toBe("reloaded");
    expect(live.current()).toMatchObject({ workers: 2, listen: "127.0.0.1:1", fail_open_tokens: 7 });
    expect(Object.isFrozen(live.current())).toBe(true);
  });

  it("may be replaced by a string, as in the demo", async () => {
    const { live } = await start(limits(20), { file: undefined, yaml: limits(20) });
    expect((await live.reload(all)).status).toBe("unchanged");
    expect((await live.putLayer({ apps: { a: { burst: 30 } } })).status).toBe("reloaded");
    expect(live.current().apps.a).toMatchObject({ guaranteed: 10, burst: 30 });
  });
});

describe("an option that needs a restart", () => {
  const tls = "tls: { cert: /cert.pem, key: /key.pem }";
  const redis = "store: rediss://somewhere";
  const changes: [option: string, yaml: string, before?: string][] = [
    ["node_id", "node_id: other"],
    ["listen", "listen: 127.0.0.1:9"],
    ["workers", "workers: 7"],
    ["store", "store: redis://user:hunter2@somewhere:6379"],
    ["store_pool_size", "store_pool_size: 7"],
    ["otel", "otel: { endpoint: 'http://127.0.0.1:4318' }"],
    ["cluster.id", "cluster: { id: other }"],
    ["cluster.shards", "cluster: { shards: 2 }"],
    ["control.listen", "control: { listen: 127.0.0.1:9 }"],
    ["envoy.listen", "envoy: { listen: 127.0.0.1:9 }"],
    ["tls", tls],
    ["control.tls", `control: { ${tls} }`],
    ["envoy.tls", `envoy: { ${tls} }`],
    ["store_tls", `${redis}\nstore_tls: { name: other }`, redis],
  ];

  it("is marked in the documentation", () => {
    expect(changes.map(([option]) => option).sort()).toEqual([...needRestart].sort());
  });

  it.each(changes)("%s is reported, and nothing changes", async (option, yaml, base = "") => {
    const { live, write } = await start(base);
    const before = live.current();
    write(`fail_open_tokens: 7\n${yaml}`);
    const result = await live.reload(all);
    expect(result).toMatchObject({ status: "refused", restartNeeded: [option] });
    expect(complaints(result)[0]).toMatch(`${option}: a change needs a restart; force applies the other changes`);
    expect(complaints(result)[0]).not.toContain(SECRET);
    expect(live.current()).toBe(before);
    expect(live.lastError()).toContain(option);
  });

  it("is deferred by a forced reload, and not reported again", async () => {
    const { live, write } = await start("workers: 1");
    write("workers: 2\nlisten: 127.0.0.1:9\nfail_open_tokens: 7");
    expect(await live.reload(forced)).toMatchObject({ status: "reloaded", restartNeeded: ["listen", "workers"] });
    expect(live.current()).toMatchObject({ workers: 1, listen: "0.0.0.0:8080", fail_open_tokens: 7 });
    write("workers: 2\nlisten: 127.0.0.1:9\nfail_open_tokens: 8");
    expect(await live.reload(all)).toMatchObject({ status: "reloaded", restartNeeded: ["listen", "workers"] });
    write("workers: 3\nlisten: 127.0.0.1:9\nfail_open_tokens: 9");
    expect(complaints(await live.reload(all))).toEqual([
      "workers: a change needs a restart; force applies the other changes (is 3)",
    ]);
    expect(live.current().fail_open_tokens).toBe(8);
    write("workers: 1\nfail_open_tokens: 9");
    expect(await live.reload(all)).toMatchObject({ status: "reloaded", restartNeeded: [] });
  });

  it("is the first route, because there is no gateway without one; other changes are applied", async () => {
    const { live, write } = await start("");
    write("upstreams: { a: { targets: [a:1] } }\nroutes: [{ path: /, upstream: a }]\nfail_open_tokens: 7");
    expect(await live.reload(all)).toMatchObject({ status: "reloaded", restartNeeded: ["routes"] });
    expect(live.current().fail_open_tokens).toBe(7);
  });
});
