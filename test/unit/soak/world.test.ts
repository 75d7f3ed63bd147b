/** The configuration of the soak test is valid. */
import { expect, it } from "vitest";
import { CLUSTER, configuration } from "../../../soak/world.js";
import { readConfig } from "../../../src/config/load.js";

it("the configuration of the soak test is valid", () => {
  const yaml = configuration("redis://10.0.0.1:6379", "127.0.0.1:3", ["127.0.0.1:1", "127.0.0.1:2"]);
  const { config, problems } = readConfig(yaml, {});
  expect(problems).toEqual([]);
  // Isolation is promised only if the cluster can pay for all apps.
  const rates = Object.values(config!.apps).map(({ guaranteed }) => guaranteed);
  expect(rates.reduce((sum, rate) => sum + rate)).toBeLessThanOrEqual(CLUSTER.rate);
});
