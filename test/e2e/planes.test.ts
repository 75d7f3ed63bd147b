/** Runs the same scenarios on the Node gateway, nginx and Envoy: each must pass, with the same verdict. */
import { describe, expect, it } from "vitest";
import { scenarios } from "../scenarios/limits.js";
import { playAll } from "../scenarios/play-all.js";
import { describeEnvoy, findEnvoy } from "../support/envoy-binary.js";

const hasEnvoy = findEnvoy() !== undefined;

describe(hasEnvoy ? "Node gateway, nginx and Envoy" : "Node gateway and nginx", () => {
  it.each(scenarios)(
    "decide alike: %s",
    async (_name, play) => {
      // Three at a time would be too slow; nginx and Envoy need the least CPU.
      const [onNginx, onEnvoy] = await playAll(play, hasEnvoy ? ["nginx", "envoy"] : ["nginx"]);
      const onNode = await play("node");
      expect(onNginx).toEqual(onNode);
      if (hasEnvoy) expect(onEnvoy).toEqual(onNode);
    },
    240_000,
  );
});

// Without Envoy, its tests are listed as skipped.
if (!hasEnvoy) describeEnvoy("Node gateway and Envoy", () => it.each(scenarios)("decide alike: %s", () => {}));
