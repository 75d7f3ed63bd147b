/** The same scenarios on the Node gateway and on nginx: each keeps its promises, and the verdicts are the same. */
import { describe, expect, it } from "vitest";
import { scenarios } from "../scenarios/limits.js";

describe("Node gateway and nginx", () => {
  it.each(scenarios)(
    "decide alike: %s",
    async (_name, play) => {
      const onNginx = await play("nginx");
      const onNode = await play("node");
      expect(onNginx).toEqual(onNode);
    },
    180_000,
  );
});
