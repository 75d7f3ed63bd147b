/** After an outage of the store, the refill that did not fit meanwhile pays for what nodes spent without it; nothing else does. */
import { expect } from "vitest";
import type { BucketLimits } from "../../src/core/app-limits.js";
import { createQuota, type GrantRequest, type Quota } from "../../src/quota/quota.js";
import type { DrivenStore } from "../support/driven-store.js";
import { forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
const CLUSTER = { capacity: 10_000, rate: 5_000, nodeTtlMs: 6_000 };
const APP: BucketLimits = { id: "app", guaranteed: 80, burst: 160, priority: 1, borrow: false };
const NODES = ["n1", "n2", "n3", "n4"];

/** A node that spends what it was not granted, because it got no reply, and reports that with its next message. */
function createNode(quota: Quota, node: string, app: BucketLimits = APP, first = 1) {
  let seq = first - 1;
  let unpaid = 0;
  const counters = { granted: 0, spent: 0, returned: 0 };
  return {
    counters,
    /** Spends without the store. */
    spend(tokens: number): void {
      seq++;
      const whole = Math.floor(unpaid + tokens + 1e-9);
      unpaid += tokens - whole;
      counters.spent += whole;
    },
    async send(need = 0): Promise<string> {
      const request: GrantRequest = { app, ...counters, need, want: need };
      const reply = await quota.of(app.id).grant({ node, epoch: 1, seq: ++seq }, [request]);
      const { granted, code } = reply.apps[0]!;
      counters.granted = Math.max(counters.granted, granted);
      if (code === "ok") counters.spent += need;
      return code;
    },
  };
}

interface Started {
  quota: Quota;
  nodes: ReturnType<typeof createNode>[];
  wait(seconds: number): void;
  level(app?: BucketLimits): Promise<number>;
}

/** All nodes have used the store once: full buckets, and ledgers. */
async function start(store: DrivenStore, id: string, shards = 1): Promise<Started> {
  const quota = createQuota(store, { id, ...CLUSTER, shards });
  const nodes = NODES.map((name) => createNode(quota, name));
  for (const node of nodes) await node.send();
  return {
    quota,
    nodes,
    wait: (seconds) => {
      store.clock.now += Math.round(seconds * SECOND);
    },
    level: async (app = APP) => (await quota.inspect(app)).tokens,
  };
}

const sorted = (codes: string[]) => [...new Set(codes)].sort();

/** Half of the rate, in an outage and afterwards, when the nodes report one after the other. Returns all codes. */
async function halfOfTheRate({ nodes, wait }: Started, outageSeconds: number, app = APP): Promise<string[]> {
  const each = app.guaranteed / 2 / nodes.length;
  wait(outageSeconds);
  for (const node of nodes) node.spend(each * outageSeconds);
  const codes: string[] = [];
  for (const [i, node] of nodes.entries()) {
    codes.push(await node.send());
    wait(0.4);
    // The others still do not reach the store, or do so already.
    for (const [j, other] of nodes.entries()) {
      if (j > i) other.spend(each * 0.4);
      else codes.push(await other.send(Math.floor(each * 0.4)));
    }
  }
  for (let i = 0; i < 40; i++) {
    codes.push(await nodes[i % nodes.length]!.send((each * nodes.length) / 10));
    wait(0.1);
  }
  return codes;
}

forEachBackend("outages", (it) => {
  for (const seconds of [2, 5, 60, 86_400]) {
    it(`an app at half of its rate is not refused after an outage of ${seconds} s`, async ({ store, name }) => {
      const started = await start(store, name);
      expect(sorted(await halfOfTheRate(started, seconds))).toEqual(["ok"]);
    });
  }

  it("on several shards, too", async ({ store, name }) => {
    const started = await start(store, name, 3);
    expect(sorted(await halfOfTheRate(started, 60))).toEqual(["ok"]);
  });

  it("nor is a value of a limit, nor an app that was first used in the outage", async ({ store, name }) => {
    const { quota, ...started } = await start(store, name);
    const value = { ...APP, id: "limit:l:v", fillSeconds: 2 };
    for (const app of [value, { ...APP, id: "new" }]) {
      const nodes = NODES.map((node) => createNode(quota, `${node}-${app.id.slice(0, 3)}`, app));
      expect(sorted(await halfOfTheRate({ ...started, quota, nodes }, 60, app))).toEqual(["ok"]);
    }
  });

  it("an app that flooded owes all but the refill of the outage", async ({ store, name }) => {
    const { nodes, wait, level } = await start(store, name);
    wait(60);
    for (const node of nodes) node.spend(160 + 80 * 60);
    for (const node of nodes) await node.send();
    expect(await level()).toBe(160 - (4 * (160 + 80 * 60) - 80 * 60));
    expect(await nodes[0]!.send(1)).toBe("quota_exhausted");
  });

  it("refill from before the outage, while the app was idle, pays nothing", async ({ store, name }) => {
    const { quota, nodes, wait, level } = await start(store, name);
    for (let i = 0; i < 60; i++) {
      wait(1);
      await quota.of("app").heartbeat({ node: "n2", epoch: 1 });
    }
    wait(10);
    nodes[0]!.spend(2_000);
    await nodes[0]!.send();
    expect(await level()).toBe(160 - (2_000 - 80 * 10));
  });

  it("refill that the bucket could hold is not paid twice", async ({ store, name }) => {
    const { nodes, wait, level } = await start(store, name);
    await nodes[0]!.send(160);
    await nodes[0]!.send();
    expect(await level()).toBe(0);
    wait(60);
    // The first two seconds of refill are in the bucket.
    expect(await level()).toBe(160);
    nodes[0]!.spend(80 * 60);
    await nodes[0]!.send();
    expect(await level()).toBe(0);
  });

  it("a report that is repeated is paid once", async ({ store, name }) => {
    const { quota, nodes, wait, level } = await start(store, name);
    wait(10);
    const request = { app: APP, granted: 0, spent: 300, returned: 0, need: 0, want: 0 };
    for (let i = 0; i < 3; i++) await quota.of("app").grant({ node: "n1", epoch: 1, seq: 3 }, [request]);
    expect(await level()).toBe(160);
    nodes[1]!.spend(800);
    await nodes[1]!.send();
    expect(await level()).toBe(160 - 300);
  });

  it("a node that was cut off alone is charged in full", async ({ store, name }) => {
    const { quota, nodes, wait, level } = await start(store, name);
    for (let i = 0; i < 60; i++) {
      wait(1);
      await quota.of("app").heartbeat({ node: "n2", epoch: 1 });
    }
    nodes[0]!.spend(400);
    await nodes[0]!.send();
    expect(await level()).toBe(160 - 400);
  });

  it("overdraft of nodes that missed no reply is charged in full", async ({ store, name }) => {
    const { nodes, wait, level } = await start(store, name);
    wait(60);
    nodes[0]!.counters.spent += 100;
    await nodes[0]!.send();
    expect(await level()).toBe(60);
    nodes[1]!.spend(100);
    await nodes[1]!.send();
    expect(await level()).toBe(60);
  });

  it("more than ten seconds after the outage, overdraft is charged in full", async ({ store, name }) => {
    const { quota, nodes, wait, level } = await start(store, name);
    wait(60);
    nodes[0]!.spend(100);
    await nodes[0]!.send();
    for (let i = 0; i < 11; i++) {
      wait(1);
      await quota.of("app").heartbeat({ node: "n2", epoch: 1 });
    }
    nodes[1]!.spend(100);
    await nodes[1]!.send();
    expect(await level()).toBe(60);
  });

  it("outages in short succession are one: nobody has to report in between", async ({ store, name }) => {
    const { quota, nodes, wait, level } = await start(store, name);
    for (let i = 0; i < 3; i++) {
      wait(10);
      await quota.of("app").heartbeat({ node: "n2", epoch: 1 });
      if (i === 1) await nodes[3]!.send();
    }
    nodes[0]!.spend(80 * 30);
    await nodes[0]!.send();
    expect(await level()).toBe(160);
    nodes[1]!.spend(10);
    await nodes[1]!.send();
    expect(await level()).toBe(150);
  });

  it("claims of tokens that a node says it holds are charged in full", async ({ store, name }) => {
    const { nodes, wait, level } = await start(store, name);
    wait(60);
    nodes[0]!.counters.granted = 400;
    await nodes[0]!.send();
    expect(await level()).toBe(160 - 400);
  });

  it("what nodes spent before the store lost its data is lost with it, unless they missed no reply", async ({
    store,
    name,
  }) => {
    const quota = createQuota(store, { id: name, ...CLUSTER });
    const level = async () => (await quota.inspect(APP)).tokens;
    for (const node of NODES.map((one) => createNode(quota, one, APP, 50))) {
      node.spend(1_000);
      await node.send();
    }
    expect(await level()).toBe(160);
    const replied = createNode(quota, "replied");
    replied.counters.spent += 100;
    await replied.send();
    expect(await level()).toBe(60);
  });
});
