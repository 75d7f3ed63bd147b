/** Envoys apply a new configuration while WebSockets are open, without a restart: `tollgate render envoy --dynamic`. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../support/envoy-binary.js";
import { type EnvoyFleet, startEnvoyFleet } from "../support/envoy-fleet.js";
import type { SocketClient } from "../support/socket-clients.js";
import { pause, waitFor } from "../support/wait-for.js";

const LEASE_MS = 3_000;
const WITHIN_A_LEASE_MS = LEASE_MS + 3_000;

let fleet: EnvoyFleet;

describeEnvoy("another configuration of two Envoys with open WebSockets", () => {
  beforeAll(async () => {
    const connections = "max_per_pod: 2, rate_per_second: 0, max_total: 0, lease_s: 3";
    fleet = await startEnvoyFleet({
      dynamic: true,
      routes: [
        { path: "/first/", pods: 1, connections },
        { path: "/second/", pods: 1, connections },
      ],
    });
  });
  afterAll(() => fleet?.stop());

  test("new limit, pod and route: open connections stay and are counted, new ones follow the configuration", async () => {
    const pids = fleet.envoys.map((envoy) => envoy.pid());
    const { open } = await fleet.connect("/first/", 10);
    expect(open).toHaveLength(2);
    expect((await fleet.connect("/third/", 2)).refused.map(({ status }) => status)).toEqual([404, 404]);

    // The first route now has the pods of both, with three slots each; a third route is added.
    const [pod] = fleet.pods("/second/");
    await fleet.change((yaml) =>
      yaml
        .replace(/(first: \{ targets: \[)/, `$1"${pod!.address}", `)
        .replace("path: /first/, upstream: first, connections: { max_per_pod: 2", (all) => all.replace("2", "3"))
        .replace("routes:\n", "routes:\n  - { path: /third/, upstream: second }\n"),
    );
    expect((await fleet.connect("/third/", 2)).refused.map(({ status }) => status)).toEqual([501, 501]);
    await waitFor("four more to be let in", async () => {
      open.push(...(await fleet.connect("/first/", 6 - open.length)).open);
      return open.length === 6;
    });
    expect((await fleet.connect("/first/", 10)).refused.map(({ status }) => status)).toEqual(Array(10).fill(429));
    expect([fleet.pods("/first/")[0]!.live.size, pod!.live.size]).toEqual([3, 3]);

    // Longer than old listeners drain, and longer than leases that are no longer renewed.
    await pause(LEASE_MS);
    await everyoneCounted(6);
    expect(open.every(isOpen)).toBe(true);
    expect(fleet.envoys.map((envoy) => envoy.pid())).toEqual(pids);

    await endAll(open.splice(0, 3));
    await everyoneCounted(3);
    await endAll(open);
    await everyoneCounted(0);
  });

  test("a removed pod keeps its connections and gets no new ones", async () => {
    const [[first], [second]] = [fleet.pods("/first/"), fleet.pods("/second/")];
    const toThese = (address: string) => (yaml: string) =>
      yaml.replace(/(first: \{ targets: \[)[^\]]*/, `$1"${address}"`);
    await fleet.change(toThese(second!.address));
    const old = (await fleet.connect("/first/", 10)).open;
    expect([old.length > 0, old.length]).toEqual([true, second!.live.size]);

    await fleet.change(toThese(first!.address));
    const { open } = await fleet.connect("/first/", 10);
    expect([open.length, first!.live.size, second!.live.size]).toEqual([old.length, old.length, old.length]);
    await pause(LEASE_MS);
    await everyoneCounted(2 * old.length);
    expect([...old, ...open].every(isOpen)).toBe(true);
    await endAll([...old, ...open]);
    await everyoneCounted(0);
  });

  test("new listener: open connections end after the drain time and free their slots", async () => {
    const { open } = await fleet.connect("/second/", 2);
    expect(open).toHaveLength(2);
    await fleet.change((yaml) => yaml.replace("timeouts: { ", "timeouts: { keep_alive_ms: 4000, "));
    await waitFor("both listeners to be other ones", async () => {
      const states = await Promise.all(fleet.envoys.map(({ admin }) => admin("/stats?filter=in_place")));
      return states.every((text) => text.includes("listener_in_place_updated: 1"));
    });
    await Promise.all(open.map(({ ended }) => ended));
    await everyoneCounted(0);
    const again = await fleet.connect("/second/", 10);
    expect(again.open).toHaveLength(2);
    await pause(LEASE_MS);
    expect(again.open.every(isOpen)).toBe(true);
    await endAll(again.open);
    await everyoneCounted(0);
  });

  test("an invalid script, or invalid routes, change nothing", async () => {
    const { dir, admin, log } = fleet.envoys[0]!;
    const replace = (name: string, text: string) => {
      writeFileSync(join(dir, "next"), text);
      renameSync(join(dir, "next"), join(dir, name));
    };
    const rejected = async () => {
      const text = await admin("/stats?filter=rds.tollgate.update");
      return [...text.matchAll(/update_(?:rejected|failure): (\d+)/g)].reduce(
        (sum, [, count]) => sum + Number(count),
        0,
      );
    };
    const stillLimits = async () => {
      const { open, refused } = await fleet.connect("/second/", 10, 0);
      expect([open.length, new Set(refused.map(({ status }) => status))]).toEqual([2, new Set([429])]);
      await endAll(open);
      await everyoneCounted(0);
    };
    const [routes, script] = ["routes.yaml", "tollgate.lua"].map((name) => readFileSync(join(dir, name), "utf8"));
    replace("tollgate.lua", "this is no script");
    await waitFor("the script to be refused", () => log().includes("tollgate: cannot load"));
    await stillLimits();
    const before = await rejected();
    // Half of the file: one virtual host without its routes.
    replace("routes.yaml", routes!.slice(0, routes!.indexOf("domains:") + "domains:".length));
    await waitFor("the routes to be refused", async () => (await rejected()) > before);
    await stillLimits();
    replace("tollgate.lua", script!);
    replace("routes.yaml", routes!);
  });
});

async function everyoneCounted(count: number): Promise<void> {
  await waitFor(
    `${count} to be counted`,
    async () => (await fleet.counted("/first/")) + (await fleet.counted("/second/")) === count,
    { withinMs: WITHIN_A_LEASE_MS },
  );
}

const isOpen = ({ socket }: SocketClient) => socket.readyState === socket.OPEN;

async function endAll(clients: SocketClient[]): Promise<void> {
  for (const { socket } of clients) socket.terminate();
  await Promise.all(clients.map(({ ended }) => ended));
}
