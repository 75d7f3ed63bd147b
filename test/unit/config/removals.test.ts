/** A file that removes most of the configuration, and a store that lost its layer, change nothing without confirmation. */
import { afterEach, describe, expect, it } from "vitest";
import type { ReloadResult } from "../../../src/config/live/live.js";
import { describeProblem } from "../../../src/config/problem.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { liveNodes } from "./live-node.js";

const nodes = liveNodes();
afterEach(() => nodes.close());

const file = { source: "file", force: false } as const;

const whole = `
apps:
  a: { guaranteed: 10 }
  b: { guaranteed: 10 }
  c: { guaranteed: 10 }
  d: { guaranteed: 10 }
upstreams: { backend: { targets: ["http://127.0.0.1:9"] } }
routes:
  - { path: /a, upstream: backend }
  - { path: /b, upstream: backend }
  - { path: /c, upstream: backend }
limits:
  - { name: one, key: [user], rate: 1/s }
  - { name: two, key: [user], rate: 1/s }
  - { name: three, key: [user], rate: 1/s }
`;

const start = (yaml = whole) => nodes.start({ yaml, store: createEmbeddedStore(), clock: createSimulatedClock() });

function complaints(result: ReloadResult): string[] {
  if (result.status !== "refused") throw new Error(`it was ${result.status}`);
  return result.problems.map(describeProblem);
}

/** The text until a line. */
const until = (line: string) => whole.slice(0, whole.indexOf(line));

describe("a file that was truncated", () => {
  it.each([
    ["before the routes", "routes:", ["routes: 3 of 3", "limits: 3 of 3"]],
    ["within the apps", "  b:", ["apps: 3 of 4", "routes: 3 of 3", "limits: 3 of 3"]],
    ["within the routes", "  - { path: /b", ["routes: 2 of 3", "limits: 3 of 3"]],
    ["within the limits", "  - { name: two", ["limits: 2 of 3"]],
  ])("%s is not applied, even if forced; confirmed it is", async (_where, line, expected) => {
    const { live, write, changes, logged } = await start();
    write(until(line));
    for (const force of [false, true]) {
      const result = await live.reload({ ...file, force });
      expect(result).toMatchObject({ status: "refused", needsConfirmation: true });
      expect(complaints(result).map((one) => one.split(" would")[0])).toEqual(expected);
      expect(complaints(result).join()).toContain("tollgate reload --confirm");
    }
    expect(changes).toEqual([]);
    expect(live.lastError()).toContain("would be removed");
    expect(logged.join()).toContain("configuration not applied: confirm it");
    expect((await live.reload({ ...file, confirm: true })).status).toBe("reloaded");
    expect(live.lastError()).toBeUndefined();
  });

  it.each([
    ["before its only limit", "limits:", "limits: 1 of 1 would be removed (one)"],
    ["before its other options", "request_limits:", "file: seems truncated: request_limits, lease would be removed"],
    ["within its last number", "00\n", "file: seems truncated: the end of its last line is missing"],
  ])("%s is not applied without it", async (_where, cut, expected) => {
    const apps = "apps:\n  a: { guaranteed: 10 }\n";
    const limit = "limits:\n  - { name: one, key: [user], rate: 1/s }\n";
    const others = "request_limits:\n  requests_per_client: 5\nlease:\n  timeout_ms: 5000\n";
    const yaml = cut === "limits:" ? apps + limit : apps + limit + others;
    const { live, write, changes } = await start(yaml);
    write(yaml);
    await live.reload(file);
    write(yaml.slice(0, yaml.lastIndexOf(cut)));
    const result = await live.reload(file);
    expect(result).toMatchObject({ status: "refused", needsConfirmation: true });
    expect(complaints(result)[0]).toContain(expected);
    expect(changes).toEqual([]);
    expect((await live.reload({ ...file, confirm: true })).status).toBe("reloaded");
  });

  it("at the end of an entry is applied: somebody may have removed the last ones", async () => {
    const { live, write } = await start();
    write(until("  - { name: three"));
    expect((await live.reload(file)).status).toBe("reloaded");
  });

  it("and had a single route is not applied without it", async () => {
    const yaml = 'upstreams: { b: { targets: ["http://127.0.0.1:9"] } }\n';
    const { live, write } = await start(`${yaml}routes: [{ path: /, upstream: b }]\n`);
    write(yaml);
    expect(complaints(await live.reload(file))[0]).toContain("routes: 1 of 1 would be removed (/)");
  });

  it.each(["", "\n\n", "# only a comment\n", "---\n...\n", "{}\n", "\0\0\0\0"])("to %j is empty", async (text) => {
    const { live, write } = await start();
    write(text);
    expect(complaints(await live.reload({ ...file, confirm: true }))[0]).toContain("is empty");
  });
});

describe("a file that removes a few", () => {
  it("is applied at once", async () => {
    const { live, write } = await start();
    write(whole.replace("  d: { guaranteed: 10 }\n", "").replace(/ {2}- \{ path: \/c.*\n/, ""));
    expect((await live.reload(file)).status).toBe("reloaded");
    expect(Object.keys(live.current().apps)).not.toContain("d");
    expect(live.current().routes).toHaveLength(2);
  });
});

describe("a store that was emptied", () => {
  const store = { source: "store", force: false } as const;

  async function emptied() {
    let current = createEmbeddedStore();
    const node = await nodes.start({
      yaml: whole,
      clock: createSimulatedClock(),
      store: {
        run: (...call) => current.run(...call),
        publish: (...call) => current.publish(...call),
        subscribe: (...call) => current.subscribe(...call),
      },
    });
    await node.live.putLayer({ apps: { a: { guaranteed: 77 } } });
    current = createEmbeddedStore();
    return node;
  }

  it("leaves the last known layer in force, with a warning, until an operator confirms", async () => {
    const { live, logged } = await emptied();
    const result = await live.reload(store);
    expect(result).toMatchObject({ status: "refused", needsConfirmation: true });
    expect(live.current().apps.a?.guaranteed).toBe(77);
    expect(live.lastError()).toContain("store layer: is gone from the store");
    expect(logged.join()).toContain("tollgate config restore");
    expect(live.activeLayer()).toEqual({ revision: 1, config: { apps: { a: { guaranteed: 77 } } } });
    expect((await live.reload({ ...store, confirm: true })).status).toBe("reloaded");
    expect(live.current().apps.a?.guaranteed).toBe(10);
    expect(live.lastError()).toBeUndefined();
  });

  it("does not prevent changes of the file", async () => {
    const { live, write } = await emptied();
    write(whole.replace("b: { guaranteed: 10 }", "b: { guaranteed: 11 }"));
    expect((await live.reload({ source: "all", force: false })).status).toBe("reloaded");
    expect(live.current().apps).toMatchObject({ a: { guaranteed: 77 }, b: { guaranteed: 11 } });
    expect(live.lastError()).toContain("is gone from the store");
  });

  it("gets its layer back from an operator, or another one", async () => {
    const { live } = await emptied();
    await live.reload(store);
    expect((await live.putLayer(live.activeLayer().config)).status).toBe("unchanged");
    expect(await live.layer()).toEqual({ revision: 1, config: { apps: { a: { guaranteed: 77 } } } });
    expect(live.lastError()).toBeUndefined();
    expect((await live.putLayer({})).status).toBe("reloaded");
    expect(live.current().apps.a?.guaranteed).toBe(10);
  });
});
