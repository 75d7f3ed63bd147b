/** The shard of an id: stable, since another one would be a second bucket, and evenly spread. */
import { describe, expect, it } from "vitest";
import { equalShare, MAX_SHARDS, shardOf, WHOLE_SHARE } from "../../../src/core/shard.js";

describe("the shard of an app", () => {
  it.each([
    ["video", 16, 8],
    ["default", 16, 7],
    ["tenant-1", 3, 2],
    ["A.z_0:9-", 64, 63],
    ["x".repeat(128), 256, 179],
  ])("%s of %i shards is %i in every version", (id, shards, shard) => {
    expect(shardOf(id, shards)).toBe(shard);
  });

  it("is the only one if there is one", () => {
    expect(shardOf("video", 1)).toBe(0);
  });

  it.each(["app-%", "tenant-%", "%", "team.%.prod"])("spreads 1,000 apps named %s over 16 shards", (pattern) => {
    const counts = new Array<number>(16).fill(0);
    for (let i = 0; i < 1000; i++) counts[shardOf(pattern.replace("%", String(i)), 16)]!++;
    expect(Math.min(...counts)).toBeGreaterThan(35);
    expect(Math.max(...counts)).toBeLessThan(95);
  });
});

it("equal shares never sum to more than L1", () => {
  for (let shards = 1; shards <= MAX_SHARDS; shards++) {
    expect(equalShare(shards) * shards).toBeLessThanOrEqual(WHOLE_SHARE);
  }
});
