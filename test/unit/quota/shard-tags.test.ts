/** The hash tags of shards: one part of the slots each, whatever the name of the cluster. */
import { createRequire } from "node:module";
import { expect, it } from "vitest";
import { shardTags } from "../../../src/quota/shard-tags.js";

/** How the Redis client computes the slot of a key. */
const slotOf = createRequire(createRequire(import.meta.url).resolve("ioredis"))("cluster-key-slot") as (
  key: string,
) => number;

it("one shard has no suffix", () => {
  expect(shardTags("cluster-01", 1)).toEqual(["cluster-01/0"]);
});

it.each(["cluster-01", "staging", "a.b_c-d", "x".repeat(64)])(
  "of %s are in the middle of their own part of the slots",
  (cluster) => {
    for (const shards of [2, 3, 16, 64]) {
      const width = 16384 / shards;
      const tags = shardTags(cluster, shards);
      expect(tags.every((tag, shard) => tag.startsWith(`${cluster}/${shard}.`))).toBe(true);
      for (const [shard, tag] of tags.entries()) {
        const slot = slotOf(`ratelimit:{${tag}}:cluster`);
        expect(slot).toBeGreaterThanOrEqual((shard + 0.4) * width);
        expect(slot).toBeLessThanOrEqual((shard + 0.6) * width);
      }
    }
  },
);

it.each([3, 6])("16 shards are spread evenly over %i primaries with equal ranges of slots", (primaries) => {
  const counts = new Array<number>(primaries).fill(0);
  for (const tag of shardTags("cluster-01", 16)) counts[Math.floor((slotOf(tag) * primaries) / 16384)]!++;
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
});
