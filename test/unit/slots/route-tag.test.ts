/** Hash tags of routes: unique, valid in Redis Cluster, and evenly spread where placements are configured. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HASH_SLOTS, hashSlotOf } from "../../../src/shared/hash-slot.js";
import { routeTag } from "../../../src/slots/route-tag.js";
import { hashSlot } from "../../../src/store/redis/client.js";

const cluster = fc.stringMatching(/^[A-Za-z0-9._:-]{1,20}$/);
const route = fc.stringMatching(/^[a-z.]{0,10}\/[!"$->@-~]{0,20}$/);
const placement = fc.option(fc.integer({ min: 0, max: 16_383 }), { nil: undefined });

describe("the hash tag of a route", () => {
  it("differs for every cluster and route", () => {
    fc.assert(
      fc.property(cluster, route, cluster, route, (c1, r1, c2, r2) => {
        expect(routeTag(c1, r1) === routeTag(c2, r2)).toBe(c1 === c2 && r1 === r2);
      }),
    );
    expect(new Set(["/a}", "/a%7D", "/a%257D", "/a"].map((path) => routeTag("c", path))).size).toBe(4);
  });

  it("is the part of a key that Redis Cluster hashes, with or without a placement", () => {
    fc.assert(
      fc.property(cluster, route, placement, (c, r, at) => {
        const tag = routeTag(c, r, at);
        expect(hashSlotOf(tag)).toBe(hashSlot(`ws:{${tag}}:pod_conn:10.0.0.1:80`));
        expect(hashSlotOf(tag)).toBe(hashSlot(`ws:{${tag}}:clock`));
      }),
      { numRuns: 50 },
    );
  });

  it.each([
    [20, 3],
    [20, 6],
    [20, 4],
    [64, 9],
  ])("%i routes with placements: no primary of %i has more than 1.3 times the mean", (routes, primaries) => {
    for (const prefix of ["/chat", "a.example/", "/tenant-"]) {
      const counts = new Array<number>(primaries).fill(0);
      for (let i = 0; i < routes; i++) {
        const slot = hashSlotOf(routeTag("cluster-01", `${prefix}${i}/`, i));
        counts[Math.floor((slot * primaries) / HASH_SLOTS)]!++;
      }
      expect(Math.max(...counts)).toBeLessThanOrEqual((1.3 * routes) / primaries);
    }
  });
});
