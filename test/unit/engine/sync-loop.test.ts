import { describe, expect, it } from "vitest";
import { defaultLeaseOptions } from "../../../src/core/lease.js";
import { type NodeState, newNode } from "../../../src/engine/node.js";
import { isEmergencyNews, isSyncUrgent } from "../../../src/engine/sync-loop.js";
import { createNodeDriver, limits } from "./node-driver.js";

describe("the loop of syncs", () => {
  it("reports an emergency when it begins on the first shard, and its end when no shard is left in it", () => {
    const nodes: NodeState[] = [];
    const options = { lease: defaultLeaseOptions, timeoutMs: 1000, failOpenTokens: undefined };
    for (let shard = 0; shard < 3; shard++) newNode(options, 1000, nodes);
    const changes = [true, false].flatMap((active) =>
      nodes.map((node) => {
        node.emergency = active;
        return isEmergencyNews(node);
      }),
    );
    expect(changes).toEqual([true, false, false, false, false, true]);
  });

  it("sends the next message at once for waiting requests, but not before the back-off of a failure has ended", () => {
    const driver = createNodeDriver([limits({ id: "app" })]);
    driver.request("app");
    expect(isSyncUrgent(driver.node, driver.now())).toBe(true);
    driver.fail();
    driver.request("app");
    expect(isSyncUrgent(driver.node, driver.now())).toBe(false);
    driver.advance(50);
    expect(isSyncUrgent(driver.node, driver.now())).toBe(true);
  });
});
