/** How limits are divided among nodes that decide without the store: a plane with many nodes takes nothing from others. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { createNodeShares } from "../../../src/quota/node-shares.js";
import { createQuota } from "../../../src/quota/quota.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { waitFor } from "../../support/wait-for.js";

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Shares that have counted these nodes. */
async function sharesOf(names: string[], planes: readonly string[]) {
  const clock = { now: 0 };
  const live = names.map((node) => ({ node: `${node}@1`, alive: true }));
  const shares = createNodeShares({ nodes: async () => live, planes: () => planes, now: () => clock.now });
  shares.partsFor("first", live.length);
  await settled();
  return { shares, live, clock };
}

it("the parts of all nodes together are at most one, whatever nodes a plane has", async () => {
  const name = fc.constantFrom("edge-1", "edge-1-a", "edge-1.b", "edge-10", "edge-2-c", "gw-1", "gw-2", "lib", "edge");
  const planes = fc.subarray(["edge", "edge-1", "edge-2"]);
  await fc.assert(
    fc.asyncProperty(
      fc.array(name, { maxLength: 40 }),
      fc.array(name, { maxLength: 5 }),
      planes,
      async (old, fresh, own) => {
        const { shares } = await sharesOf(old, own);
        const all = [...old, ...fresh];
        const sum = all.reduce((total, node) => total + 1 / shares.partsFor(node, all.length), 0);
        expect(sum).toBeLessThanOrEqual(1 + 1e-9);
      },
    ),
  );
});

it("128 nodes of one plane count as one for the others, and share what is theirs", async () => {
  const hostile = Array.from({ length: 128 }, (_, i) => `hostile-${i}`);
  const { shares, live, clock } = await sharesOf([...hostile, "gw-1", "gw-2", "edge-1"], ["hostile", "edge-1"]);
  const parts = (node: string, count = live.length) => shares.partsFor(node, count);
  expect([parts("gw-1"), parts("edge-1"), parts("hostile-5")]).toEqual([4, 4, 4 * 128]);
  // One that nobody has counted yet may be anybody's.
  expect([parts("gw-1", live.length + 1), parts("edge-1", live.length + 1)]).toEqual([5, 10]);
  live.push({ node: "edge-1-b@1", alive: true });
  clock.now += 1_000;
  parts("gw-1", live.length);
  await settled();
  expect([parts("gw-1"), parts("edge-1")]).toEqual([4, 8]);
});

it("without planes that have their own credentials, each node counts", async () => {
  const { shares } = await sharesOf(["a", "b", "c"], []);
  expect(shares.partsFor("a", 3)).toBe(3);
});

it("nodes learn their part with the reply to a message, on several shards", async () => {
  const limits = { id: "c", capacity: 1_000, rate: 1_000, nodeTtlMs: 10_000, shards: 2 };
  const quota = createQuota(createEmbeddedStore(), { ...limits, planes: ["hostile"] });
  for (let i = 0; i < 50; i++) await quota.shards[i % 2]!.heartbeat({ node: `hostile-${i}`, epoch: 1 });
  const beat = async (node: string) => (await quota.shards[0]!.heartbeat({ node, epoch: 1 })).liveNodes;
  await beat("gw-1");
  await waitFor("the nodes to be counted", async () => (await beat("gw-1")) === 2);
  expect(await beat("hostile-0")).toBe(100);
});
