/** Runs the same scenarios on the Node gateway, nginx and Envoy: each must pass, with the same verdict. */
import { describe, expect, it } from "vitest";
import { scenarios, type Verdict } from "../scenarios/limits.js";
import { describeEnvoy, findEnvoy } from "../support/envoy-binary.js";
import type { PlaneKind } from "../support/planes.js";

const hasEnvoy = findEnvoy() !== undefined;

/** Runs them in parallel and waits for all, even if one fails. */
async function playAll(play: (kind: PlaneKind) => Promise<Verdict>, kinds: PlaneKind[]): Promise<Verdict[]> {
  const played = await Promise.allSettled(kinds.map(play));
  return played.map((each) => {
    if (each.status === "rejected") throw each.reason;
    return each.value;
  });
}

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
