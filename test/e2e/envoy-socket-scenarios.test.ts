/** The WebSocket scenarios on the Node gateway and on Envoy: both pass, with the same results. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SocketWorld, startSocketWorld } from "../scenarios/socket-world.js";
import { playSockets, socketActs } from "../scenarios/sockets.js";
import { describeEnvoy } from "../support/envoy-binary.js";

describeEnvoy("Node gateway and Envoy", () => {
  describe.each(socketActs)("$name", ({ world: options, scenarios }) => {
    const worlds: SocketWorld[] = [];
    beforeAll(async () => {
      for (const kind of ["envoy", "node"] as const) worlds.push(await startSocketWorld(kind, options));
    }, 180_000);
    afterAll(() => Promise.all(worlds.map((world) => world.stop())));

    it.each(scenarios)(
      "admit WebSockets alike: %s",
      async (_name, play) => {
        const [onEnvoy, onNode] = await Promise.all(worlds.map((world) => playSockets(world, play)));
        expect(onEnvoy).toEqual(onNode);
      },
      180_000,
    );
  });
});
