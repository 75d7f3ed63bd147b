/** Runs the scenarios about leases on the Node gateway, nginx and Envoy. */
import { describe, expect, it } from "vitest";
import { leaseScenarios } from "../scenarios/leases.js";
import { describeEnvoy } from "../support/envoy-binary.js";

describe.each(["node", "nginx"] as const)("%s", (kind) => {
  it.each(leaseScenarios)("%s", async (_name, play) => {
    expect((await play(kind)).statuses).toEqual([200, 429]);
  });
});

describeEnvoy("envoy", () => {
  it.each(leaseScenarios)("%s", async (_name, play) => {
    expect((await play("envoy")).statuses).toEqual([200, 429]);
  });
});
