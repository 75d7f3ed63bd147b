/** Slots of connections that Envoys report: renewed while reported, released at their end, reclaimed when lost. */
import { describe, expect, it } from "vitest";
import { createEnvoyConnections } from "../../../src/envoy-service/access-log/envoy-connections.js";
import type { EnvoySocket } from "../../../src/envoy-service/access-log/route-connections.js";
import { createRouteSlots } from "../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { limits, overNetwork, type Way } from "../slots/keeper-bench.js";

const LEASE_MS = 3_000;
const START_MS = 1_800_000_000_000;
const PODS = ["10.0.0.1:80", "10.0.0.2:80"];

function createBench() {
  const clock = createSimulatedClock();
  const newSlots = () => createRouteSlots(createEmbeddedStore({ clock: () => (START_MS + clock.now()) * 1000 }), "c1");
  let routeSlots = newSlots();
  let slots = routeSlots.of("/ws/");
  const way: Way = { mode: "up", latencyMs: 1, calls: { acquire: 0, renew: 0, release: 0, counts: 0 } };
  const observed = { lost: 0, reclaimed: 0, away: [] as boolean[] };
  const connections = createEnvoyConnections({
    clock,
    slots: overNetwork(() => routeSlots, way, clock),
    leaseMs: () => LEASE_MS,
    timeoutMs: () => 500,
    podsOf: (route) => (route === "/ws/" ? PODS : []),
    appOf: (name) => (name === "chat" ? name : "default"),
    observer: {
      lost: (count) => {
        observed.lost += count;
      },
      reclaimed: () => {
        observed.reclaimed++;
      },
      contactChanged: (_, away) => void observed.away.push(away),
    },
  });
  const socket = (connection: string, more: Partial<EnvoySocket> = {}): EnvoySocket => ({
    proxy: "envoy-1",
    connection,
    pod: PODS[0]!,
    app: "chat",
    route: "/ws/",
    ...more,
  });
  /** Acquires a slot as the script does. */
  async function acquire({ proxy, connection, pod, app }: EnvoySocket, maxPerPod = 2): Promise<boolean> {
    const answer = await slots.acquire(
      { proxy, connection, app, pods: [pod] },
      limits({ maxPerPod, leaseMs: LEASE_MS }),
    );
    return answer.allowed;
  }
  /** Reports these every third of a lease, as Envoy does. Calls of another proxy advance the lease clock of the store. */
  async function live(sockets: EnvoySocket[], ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += LEASE_MS / 3) {
      for (const one of sockets) connections.alive(one, "edge-1");
      await clock.advance(LEASE_MS / 3);
      await slots.renew("other-proxy", LEASE_MS, []);
    }
  }
  const count = async (pod = PODS[0]!) => (await slots.counts([pod], LEASE_MS)).perPod.get(pod);
  const wipe = () => {
    routeSlots = newSlots();
    slots = routeSlots.of("/ws/");
  };
  return { clock, way, observed, connections, socket, acquire, live, count, wipe };
}

describe("connections of Envoys", () => {
  it("keep their slots while they are reported, and lose them one lease after the last report", async () => {
    const { acquire, live, socket, count, observed } = createBench();
    const [a, b] = [socket("a"), socket("b")];
    expect([await acquire(a), await acquire(b), await acquire(socket("c"))]).toEqual([true, true, false]);
    await live([a, b], 5 * LEASE_MS);
    expect([await count(), observed.lost]).toEqual([2, 0]);
    // Its Envoy was killed.
    await live([a], LEASE_MS);
    expect(await count()).toBe(1);
  });

  it("share calls: one for many renewals, one for many releases", async () => {
    const { acquire, connections, clock, socket, way, count } = createBench();
    const all = Array.from({ length: 200 }, (_, i) => socket(`c${i}`));
    for (const one of all) await acquire(one, 1_000);
    for (const one of all) connections.alive(one, "edge-1");
    await clock.advance(50);
    expect(way.calls.renew).toBe(1);
    for (const one of all) connections.ended(one);
    await clock.advance(50);
    expect([way.calls.release, await count(), connections.releasesWaiting()]).toEqual([1, 0, 0]);
  });

  it("of several workers are renewed per worker", async () => {
    const { acquire, live, socket, count, observed } = createBench();
    const [a, b] = [socket("1"), socket("1", { proxy: "envoy-2" })];
    expect([await acquire(a), await acquire(b)]).toEqual([true, true]);
    await live([a, b], 3 * LEASE_MS);
    expect([await count(), observed.lost]).toEqual([2, 0]);
  });

  it("that ended before their pod was known are released on all pods of the route", async () => {
    const { acquire, connections, clock, socket, count } = createBench();
    const placed = socket("a", { pod: PODS[1]! });
    await acquire(placed);
    connections.alive(socket("a", { pod: "" }), "edge-1");
    connections.ended(socket("a", { pod: "" }));
    await clock.advance(50);
    expect(await count(PODS[1])).toBe(0);
    // The request for the slot arrives after the end.
    connections.ended(socket("b", { pod: "" }));
    await clock.advance(50);
    expect(await acquire(socket("b"))).toBe(false);
    expect(await count()).toBe(0);
  });

  it("are counted again when the store lost them, even above the limit", async () => {
    const { acquire, live, socket, count, wipe, observed } = createBench();
    const [a, b] = [socket("a"), socket("b")];
    await acquire(a);
    await acquire(b);
    wipe();
    expect([await acquire(socket("x")), await acquire(socket("y"))]).toEqual([true, true]);
    await live([a, b], LEASE_MS / 3);
    expect([await count(), observed.lost, observed.reclaimed]).toEqual([4, 2, 2]);
    expect(await acquire(socket("z"))).toBe(false);
  });

  it("stay released: a late periodic entry does not bring them back", async () => {
    const { acquire, connections, clock, socket, count } = createBench();
    await acquire(socket("a"));
    connections.ended(socket("a"));
    await clock.advance(50);
    connections.alive(socket("a"), "edge-1");
    await clock.advance(50);
    expect(await count()).toBe(0);
  });

  it("that end while the store is unavailable are released when it is back, with one call at a time to probe it", async () => {
    const { acquire, connections, clock, socket, count, way, observed } = createBench();
    const all = Array.from({ length: 10 }, (_, i) => socket(`c${i}`, { proxy: `envoy-${i}` }));
    for (const one of all) await acquire(one, 100);
    way.mode = "refusing";
    for (const one of all) connections.ended(one);
    await clock.advance(50);
    way.calls.release = 0;
    await clock.advance(LEASE_MS / 2);
    expect(way.calls.release).toBeLessThanOrEqual(LEASE_MS / 2 / 200 + 1);
    expect([connections.releasesWaiting(), await count()]).toEqual([10, 10]);
    way.mode = "up";
    await clock.advance(500);
    expect([connections.releasesWaiting(), await count(), observed.away]).toEqual([0, 0, [true, false]]);
  });

  it("are not renewed with old entries when the store is back: their Envoy may be dead", async () => {
    const { acquire, connections, clock, socket, way } = createBench();
    await acquire(socket("a"));
    way.mode = "hanging";
    connections.alive(socket("a"), "edge-1");
    await clock.advance(2 * LEASE_MS);
    way.mode = "up";
    way.calls.renew = 0;
    await clock.advance(LEASE_MS);
    expect([way.calls.renew, way.calls.acquire]).toEqual([0, 0]);
  });

  it("are counted per pod and per Envoy until their lease expires", async () => {
    const { connections, clock, socket } = createBench();
    connections.alive(socket("a"), "edge-1");
    connections.alive(socket("b", { pod: PODS[1]! }), "edge-2");
    connections.alive(socket("a"), "edge-1");
    expect(connections.stats()).toEqual({
      pods: [...PODS].reverse().map((pod) => ({ route: "/ws/", pod, active: 1 })),
      nodes: new Map([
        ["edge-1", 1],
        ["edge-2", 1],
      ]),
    });
    connections.ended(socket("b", { pod: PODS[1]! }));
    expect(connections.stats().pods.map(({ pod }) => pod)).toEqual([PODS[0]]);
    await clock.advance(LEASE_MS + 1);
    expect(connections.stats().pods.length).toBe(0);
  });

  it("that have ended are released before the service stops, and open ones keep their slots", async () => {
    const { acquire, connections, clock, socket, count } = createBench();
    await acquire(socket("a"));
    await acquire(socket("b"));
    connections.alive(socket("a"), "edge-1");
    connections.ended(socket("b"));
    let closed = false;
    void connections.close().then(() => {
      closed = true;
    });
    await clock.advance(50);
    expect([closed, await count()]).toEqual([true, 1]);
  });
});
