/** The same scenarios on the Node gateway, on nginx and on Envoy: each keeps its promises, and the verdicts are the same. */
import { describe, expect, it } from "vitest";
import { scenarios, type Verdict } from "../scenarios/limits.js";
import { describeEnvoy, findEnvoy } from "../support/envoy-binary.js";
import type { PlaneKind } from "../support/planes.js";

const thereIsEnvoy = findEnvoy() !== undefined;

/** At the same time; none is left running when another fails. */
async function playAll(play: (kind: PlaneKind) => Promise<Verdict>, kinds: PlaneKind[]): Promise<Verdict[]> {
  const played = await Promise.allSettled(kinds.map(play));
  return played.map((each) => {
    if (each.status === "rejected") throw each.reason;
    return each.value;
  });
}

describe(thereIsEnvoy ? "Node gateway, nginx and Envoy" : "Node gateway and nginx", () => {
  it.each(scenarios)(
    "decide alike: %s",
    async (_name, play) => {
      // Two at a time, and those that need the least: three would measure the machine.
      const [onNginx, onEnvoy] = await playAll(play, thereIsEnvoy ? ["nginx", "envoy"] : ["nginx"]);
      const onNode = await play("node");
      expect(onNginx).toEqual(onNode);
      if (thereIsEnvoy) expect(onEnvoy).toEqual(onNode);
    },
    240_000,
  );
});

// Without one, the run says so.
if (!thereIsEnvoy) describeEnvoy("Node gateway and Envoy", () => it.each(scenarios)("decide alike: %s", () => {}));
