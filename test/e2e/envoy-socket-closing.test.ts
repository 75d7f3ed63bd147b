/** What clients see when a WebSocket is closed through Envoy, on each supported version that is installed. */
import { existsSync, readdirSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { describeEnvoy, envoyBinary } from "../support/envoy-binary.js";
import { type EnvoyFleet, startEnvoyFleet } from "../support/envoy-fleet.js";
import type { PodConnection } from "../support/socket-pods.js";
import { waitFor } from "../support/wait-for.js";

/** Without 1.37, which the module refuses. */
const installed = existsSync(fromRoot(".cache/envoy"))
  ? readdirSync(fromRoot(".cache/envoy")).filter((name) => /^1\.(38|39|40)\./.test(name))
  : [];
const binaries = installed.map((version) => [version, fromRoot(`.cache/envoy/${version}/envoy/_bin/envoy`)] as const);
const TRY_AGAIN_LATER = 1013;
const GOING_AWAY = 1001;
const ABNORMAL = 1006;
const late = { status: 504, reason: "upstream_timeout" };
/** As long as the close frame that must not end it. */
const BYTES = 19;

describeEnvoy("a WebSocket that Envoy closes", () => {
  const all = process.env.TOLLGATE_ENVOY === undefined ? binaries : [["of TOLLGATE_ENVOY", envoyBinary()] as const];
  describe.each(all)("Envoy %s", (_version, binary) => {
    let fleet: EnvoyFleet;
    beforeAll(async () => {
      vi.stubEnv("TOLLGATE_ENVOY", binary);
      const connections = "max_per_pod: 2, on_store_failure: open, rate_per_second: 0, max_total: 0, lease_s: 3";
      fleet = await startEnvoyFleet({
        envoys: 1,
        routes: [
          { path: "/open/", pods: 1, connections },
          { path: "/silent/", pods: 1, connections },
        ],
        timeouts: ", response_ms: 500",
      });
    });
    afterAll(async () => {
      await fleet.stop();
      vi.unstubAllEnvs();
    });

    test("because it lost its slot is closed with 1013, and one within a frame is reset", async () => {
      await fleet.killService();
      const { open } = await fleet.connect("/open/", 8);
      expect(open).toHaveLength(8);
      const messages: string[] = [];
      for (const { name, socket } of open) socket.on("message", (data) => messages.push(`${name} ${String(data)}`));
      // Every pod's connection is in another state. A message of another length ends before each.
      const halves = new Set(open.filter((_, i) => i % 2 === 0).map(({ name }) => name));
      for (const { client, socket } of fleet.pods("/open/")[0]!.live) {
        for (const bytes of [0, 125, 126, 65_535, 65_536]) socket.send(Buffer.alloc(bytes, "x"));
        if (halves.has(client)) tcpOf(socket).write(Buffer.from([0x82, BYTES]));
      }
      await waitFor("all messages", () => messages.length === 8 * 5);
      const codes = open.map(({ name, ended }) => ended.then(({ code }) => `${halves.has(name)} ${code}`));
      await fleet.startService();
      await waitFor("those without a slot to be closed", () => open.filter(isOpen).length === 2);
      const seen = await Promise.all(codes.filter((_, i) => !isOpen(open[i]!)));
      expect(seen).toHaveLength(6);
      expect(new Set(seen)).toEqual(new Set([`true ${ABNORMAL}`, `false ${TRY_AGAIN_LATER}`]));
      // The half message of the pod was not completed.
      expect(messages).toHaveLength(8 * 5);
      await fleet.untilCounted("/open/", 2);
      for (const { socket } of open) socket.terminate();
      await fleet.untilCounted("/open/", 0);
    });

    test("because its pod does not answer: the client gets 504, and the slot is free", async () => {
      const [pod] = fleet.pods("/silent/");
      await pod!.die();
      const callers: Socket[] = [];
      const silent = createServer((socket) => void callers.push(socket.resume().on("error", () => undefined)));
      await new Promise<void>((resolve) => silent.listen(Number(pod!.address.split(":")[1]), "127.0.0.1", resolve));
      try {
        const { refused } = await fleet.connect("/silent/", 2);
        expect(refused).toMatchObject([late, late]);
        await fleet.untilCounted("/silent/", 0);
      } finally {
        for (const socket of callers) socket.destroy();
        await new Promise((resolve) => silent.close(resolve));
        await pod!.revive();
      }
    });

    test("because it exits is closed with 1001", async () => {
      const { open } = await fleet.connect("/open/", 2);
      expect(open).toHaveLength(2);
      fleet.envoys[0]!.signal("SIGTERM");
      expect((await Promise.all(open.map(({ ended }) => ended))).map(({ code }) => code)).toEqual([
        GOING_AWAY,
        GOING_AWAY,
      ]);
    });
  });
});

const isOpen = ({ socket }: { socket: { readyState: number } }) => socket.readyState === 1;

/** The pod's TCP connection, below its WebSocket library. */
function tcpOf(socket: PodConnection["socket"]): Socket {
  return (socket as unknown as { _socket: Socket })._socket;
}
