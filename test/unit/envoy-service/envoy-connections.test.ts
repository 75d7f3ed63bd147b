/** What Envoys tell of their sockets keeps the slots true: renewed while told of, freed when they end, taken again when lost. */
import { describe, expect, it } from "vitest";
import { createEnvoyConnections, type EnvoySocket } from "../../../src/envoy-service/access-log/envoy-connections.js";
import { createSlots } from "../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { limits, overNetwork, type Way } from "../slots/keeper-bench.js";

const LEASE_MS = 3_000;
const START_MS = 1_800_000_000_000;
const PODS = ["10.0.0.1:80", "10.0.0.2:80"];

function createBench() {
  const clock = createSimulatedClock();
  const newSlots = () => createSlots(createEmbeddedStore({ clock: () => (START_MS + clock.now()) * 1000 }));
  let slots = newSlots();
  const way: Way = { mode: "up", latencyMs: 1, calls: { acquire: 0, renew: 0, release: 0, counts: 0 } };
  const heard = { lost: 0, reclaimed: 0, away: [] as boolean[] };
  const connections = createEnvoyConnections({
    ...{ clock, slots: overNetwork(() => slots, way, clock), leaseMs: () => LEASE_MS, timeoutMs: () => 500 },
    podsOf: (route) => (route === "/ws/" ? PODS : []),
    appOf: (name) => (name === "chat" ? name : "default"),
    observer: {
      lost: (count) => {
        heard.lost += count;
      },
      reclaimed: () => {
        heard.reclaimed++;
      },
      contactChanged: (away) => void heard.away.push(away),
    },
  });
  const socket = (connection: string, more: Partial<EnvoySocket> = {}): EnvoySocket => ({
    ...{ proxy: "envoy-1", connection, pod: PODS[0]!, app: "chat", route: "/ws/" },
    ...more,
  });
  /** As Envoy's script does it. */
  async function acquire({ proxy, connection, pod, app }: EnvoySocket, maxPerPod = 2): Promise<boolean> {
    const answer = await slots.acquire(
      { proxy, connection, app, pods: [pod] },
      limits({ maxPerPod, leaseMs: LEASE_MS }),
    );
    return answer.allowed;
  }
  /** Tells of these each third of a lease, as Envoy does, while something else lets the leases' clock go on. */
  async function live(sockets: EnvoySocket[], ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += LEASE_MS / 3) {
      for (const one of sockets) connections.alive(one, "edge-1");
      await clock.advance(LEASE_MS / 3);
      await slots.renew("somebody-else", LEASE_MS, []);
    }
  }
  const count = async (pod = PODS[0]!) => (await slots.counts([pod], LEASE_MS)).perPod.get(pod);
  const wipe = () => {
    slots = newSlots();
  };
  return { clock, way, heard, connections, socket, acquire, live, count, wipe };
}

describe("sockets of Envoys", () => {
  it("keep their slots while they are told of, and lose them a lease after the last word", async () => {
    const { acquire, live, socket, count, heard } = createBench();
    const [a, b] = [socket("a"), socket("b")];
    expect([await acquire(a), await acquire(b), await acquire(socket("c"))]).toEqual([true, true, false]);
    await live([a, b], 5 * LEASE_MS);
    expect([await count(), heard.lost]).toEqual([2, 0]);
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

  it("of several workers are renewed in the name of each", async () => {
    const { acquire, live, socket, count, heard } = createBench();
    const [a, b] = [socket("1"), socket("1", { proxy: "envoy-2" })];
    expect([await acquire(a), await acquire(b)]).toEqual([true, true]);
    await live([a, b], 3 * LEASE_MS);
    expect([await count(), heard.lost]).toEqual([2, 0]);
  });

  it("that ended before anybody knew their pod are freed wherever they may be", async () => {
    const { acquire, connections, clock, socket, count } = createBench();
    const placed = socket("a", { pod: PODS[1]! });
    await acquire(placed);
    connections.alive(socket("a", { pod: "" }), "edge-1");
    connections.ended(socket("a", { pod: "" }));
    await clock.advance(50);
    expect(await count(PODS[1])).toBe(0);
    // The question arrives after its end.
    connections.ended(socket("b", { pod: "" }));
    await clock.advance(50);
    expect(await acquire(socket("b"))).toBe(false);
    expect(await count()).toBe(0);
  });

  it("are counted again when the store forgot them, even where others have come meanwhile", async () => {
    const { acquire, live, socket, count, wipe, heard } = createBench();
    const [a, b] = [socket("a"), socket("b")];
    await acquire(a);
    await acquire(b);
    wipe();
    expect([await acquire(socket("x")), await acquire(socket("y"))]).toEqual([true, true]);
    await live([a, b], LEASE_MS / 3);
    expect([await count(), heard.lost, heard.reclaimed]).toEqual([4, 2, 2]);
    expect(await acquire(socket("z"))).toBe(false);
  });

  it("stay ended: a word of life that was overtaken brings nobody back", async () => {
    const { acquire, connections, clock, socket, count } = createBench();
    await acquire(socket("a"));
    connections.ended(socket("a"));
    await clock.advance(50);
    connections.alive(socket("a"), "edge-1");
    await clock.advance(50);
    expect(await count()).toBe(0);
  });

  it("that end while the store is away are freed when it is back; one call at a time asks for it", async () => {
    const { acquire, connections, clock, socket, count, way, heard } = createBench();
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
    expect([connections.releasesWaiting(), await count(), heard.away]).toEqual([0, 0, [true, false]]);
  });

  it("are not renewed by old words when the store is back: their Envoy may be dead", async () => {
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

  it("are told of by pod and by Envoy, and no more when nobody speaks of them", async () => {
    const { connections, clock, socket } = createBench();
    connections.alive(socket("a"), "edge-1");
    connections.alive(socket("b", { pod: PODS[1]! }), "edge-2");
    connections.alive(socket("a"), "edge-1");
    expect(connections.stats()).toEqual({
      pods: new Map(PODS.map((pod) => [pod, 1])),
      nodes: new Map([
        ["edge-1", 1],
        ["edge-2", 1],
      ]),
    });
    connections.ended(socket("b", { pod: PODS[1]! }));
    expect([...connections.stats().pods.keys()]).toEqual([PODS[0]]);
    await clock.advance(LEASE_MS + 1);
    expect(connections.stats().pods.size).toBe(0);
  });

  it("that have ended are booked before the service stops, and those that live stay", async () => {
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
