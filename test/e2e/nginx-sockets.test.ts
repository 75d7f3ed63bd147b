/** The WebSocket scenarios on the Node gateway and on nginx: both pass, with the same results. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SocketWorld, startSocketWorld } from "../scenarios/socket-world.js";
import { playSockets, socketActs } from "../scenarios/sockets.js";

describe.each(socketActs)("Node gateway and nginx, $name", ({ world: options, scenarios }) => {
  let worlds: SocketWorld[] = [];
  beforeAll(async () => {
    worlds = [await startSocketWorld("nginx", options), await startSocketWorld("node", options)];
  });
  afterAll(() => Promise.all(worlds.map((world) => world.stop())));

  it.each(scenarios)("admit WebSockets alike: %s", async (_name, play) => {
    const [onNginx, onNode] = await Promise.all(worlds.map((world) => playSockets(world, play)));
    expect(onNginx).toEqual(onNode);
  });
});
