/** WebSockets through two real Envoys: limits hold, and slots match the connections whatever is killed. */

import { connect as connectTcp } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../support/envoy-binary.js";
import { type EnvoyFleet, startEnvoyFleet } from "../support/envoy-fleet.js";
import { slotMembers } from "../support/slot-keys.js";
import { connectSocket, type SocketClient } from "../support/socket-clients.js";
import { pause, waitFor } from "../support/wait-for.js";
import { upgradeHead } from "../support/ws-backend.js";

const LEASE_MS = 3_000;
/** A lease, and a reserve for a busy machine. */
const WITHIN_A_LEASE_MS = LEASE_MS + 3_000;

let fleet: EnvoyFleet;

describeEnvoy("WebSockets through two Envoys", () => {
  beforeAll(async () => {
    const lease = "rate_per_second: 0, max_total: 0, lease_s: 3";
    fleet = await startEnvoyFleet({
      routes: [
        { path: "/two/", pods: 1, connections: `max_per_pod: 2, ${lease}` },
        { path: "/many/", pods: 2, connections: `max_per_pod: 1000, ${lease}` },
        { path: "/open/", pods: 1, connections: `max_per_pod: 4, on_store_failure: open, ${lease}` },
        { path: "/five/", pods: 5, connections: `max_per_pod: 2, ${lease}` },
        { path: "/mortal/", pods: 2, connections: `max_per_pod: 10, ${lease}` },
      ],
    });
  });
  afterAll(() => fleet.stop());

  test("10 at once with a limit of 2: exactly 2 are admitted, a hundred times", async () => {
    const [pod] = fleet.pods("/two/");
    const before = pod!.accepted();
    for (let round = 1; round <= 100; round++) {
      const { open, refused } = await fleet.connect("/two/", 10);
      const kinds = new Set(refused.map(({ status, reason }) => `${status} ${reason}`));
      expect([open.length, [...kinds], pod!.live.size], `round ${round}`).toEqual([2, ["429 LIMIT_EXCEEDED"], 2]);
      await endAll(open);
      await fleet.untilCounted("/two/", 0, WITHIN_A_LEASE_MS);
    }
    expect(pod!.accepted() - before).toBe(200);
  });

  test("five pods with two slots each: Envoy connects to the pod of the slot", async () => {
    const { open, refused } = await fleet.connect("/five/", 30);
    expect(fleet.pods("/five/").map(({ live }) => live.size)).toEqual([2, 2, 2, 2, 2]);
    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([429]));
    await endAll(open);
    await fleet.untilCounted("/five/", 0, WITHIN_A_LEASE_MS);
  });

  test("a pod that closes WebSockets still gets new ones", async () => {
    for (let i = 0; i < 6; i++) {
      const { open, refused } = await fleet.connect("/two/", 1, 0);
      expect(refused).toEqual([]);
      // The closing handshake: the pod ends the TCP stream.
      for (const { socket } of open) socket.close();
      await Promise.all(open.map(({ ended }) => ended));
      await fleet.untilCounted("/two/", 0, WITHIN_A_LEASE_MS);
    }
  });

  test("a connection's bytes are charged when it has ended", async () => {
    const { socket, outcome, ended } = connectSocket(`${fleet.envoys[0]!.url}/many/`, { "X-App-Id": "metered" });
    expect((await outcome).open).toBe(true);
    const half = 2 * 1024 * 1024;
    const echoed = new Promise((resolve) => socket.once("message", resolve));
    socket.send(Buffer.alloc(half));
    await echoed;
    socket.close();
    await ended;
    // 64 KiB each, plus frame headers, which take one quantum more.
    const expected = (2 * half) / 65_536;
    const spent = await waitFor("the bytes to be charged", async () => {
      const booked = Number(await fleet.redis.command("HGET", "ratelimit:{cluster-01/0}:app:metered", "spent"));
      return booked >= expected && booked;
    });
    expect(spent).toBeLessThanOrEqual(expected + 2);
  });

  test("clients that are killed while their slot is being taken leave no slot behind", async () => {
    const took: number[] = [];
    for (let round = 0; round < 3; round++) {
      const clients = await waitFor("calls that the store cannot answer yet", async () => {
        fleet.redis.pause();
        const begun = Array.from({ length: 20 }, (_, i) => beginUpgrade(i % 2, "/two/"));
        const isAsked = async () => (await asking()) >= 20;
        if (await waitFor("all calls", isAsked, { withinMs: 2_000 }).catch(() => false)) return begun;
        // On a busy machine the first calls time out before the last ones are sent.
        for (const socket of begun) socket.destroy();
        fleet.redis.resume();
        await fleet.untilCounted("/two/", 0);
        return false;
      });
      for (const socket of clients) socket.destroy();
      fleet.redis.resume();
      // Released, not forgotten at the end of their leases.
      await waitFor("their releases to be recorded", async () => (await booked()) >= 10, {
        withinMs: WITHIN_A_LEASE_MS,
      });
      took.push(await timed(() => fleet.untilCounted("/two/", 0, WITHIN_A_LEASE_MS)));
      const { open } = await fleet.connect("/two/", 10);
      expect(open).toHaveLength(2);
      await endAll(open);
      await fleet.untilCounted("/two/", 0, WITHIN_A_LEASE_MS);
    }
    say("slots of clients killed during admission were free after", took);
  });

  test("slots of clients that are killed while connected are free at once", async () => {
    const took: number[] = [];
    for (let round = 0; round < 10; round++) {
      const { open, refused } = await fleet.connect("/many/", 10);
      expect(refused).toEqual([]);
      expect(await fleet.counted("/many/")).toBe(10);
      for (const { socket } of open) socket.terminate();
      took.push(await timed(() => fleet.untilCounted("/many/", 0, WITHIN_A_LEASE_MS)));
    }
    say("slots of clients killed during the session were free after", took);
  });

  test("an upgrade for a dead pod gets a slot on another pod, and the dead one holds none", async () => {
    const [dead] = fleet.pods("/mortal/");
    await dead!.die();
    const held: SocketClient[] = [];
    try {
      // Some of these are placed on it first.
      const first = await fleet.connect("/mortal/", 4);
      held.push(...first.open);
      expect(first.refused).toEqual([]);
      const noticed = () => fleet.envoys.some(({ log }) => log().includes(`target is down: ${dead!.address}`));
      await waitFor("the log to name the dead pod", noticed);
      const second = await fleet.connect("/mortal/", 6);
      held.push(...second.open);
      expect(second.refused).toEqual([]);
      await fleet.untilCounted("/mortal/", 10);
      const { open, refused } = await fleet.connect("/mortal/", 4);
      expect([open.length, refused.map(({ status }) => status)]).toEqual([0, [429, 429, 429, 429]]);
    } finally {
      await dead!.revive();
      await endAll(held);
    }
    await fleet.untilCounted("/mortal/", 0, WITHIN_A_LEASE_MS);
  });

  test("if no pod can be reached, the client sees the gateway's error, and no slot is held", async () => {
    const pods = fleet.pods("/mortal/");
    for (const pod of pods) await pod.die();
    try {
      const { open, refused } = await fleet.connect("/mortal/", 10);
      expect([open, new Set(refused.map(({ status, reason }) => `${status} ${reason}`))]).toEqual([
        [],
        new Set(["502 upstream_unreachable"]),
      ]);
      await fleet.untilCounted("/mortal/", 0, WITHIN_A_LEASE_MS);
    } finally {
      for (const pod of pods) await pod.revive();
    }
  });

  test("the service is killed: connections within the limit have slots one lease after it is back, others are closed", async () => {
    const held = await fleet.connect("/two/", 10);
    expect(held.open).toHaveLength(2);
    await fleet.killService();
    const closed = await fleet.connect("/two/", 4);
    expect(closed.refused.map(({ status }) => status)).toEqual([503, 503, 503, 503]);
    const withoutStore = await fleet.connect("/open/", 30);
    expect(withoutStore.open).toHaveLength(30);
    await fleet.startService();
    const keptOpen = () => withoutStore.open.filter(isOpen).length === 4;
    await waitFor("those above the limit to be closed", keptOpen, { withinMs: WITHIN_A_LEASE_MS });
    await fleet.untilCounted("/open/", 4, WITHIN_A_LEASE_MS);
    await fleet.untilCounted("/two/", 2, WITHIN_A_LEASE_MS);
    await pause(LEASE_MS);
    expect([await fleet.counted("/two/"), await fleet.counted("/open/")]).toEqual([2, 4]);
    const { open, refused } = await fleet.connect("/open/", 2);
    expect([open.length, refused.map(({ status }) => status)]).toEqual([0, [429, 429]]);
    expect([held.open.every(isOpen), keptOpen()]).toEqual([true, true]);
    await endAll([...held.open, ...withoutStore.open]);
    await fleet.untilCounted("/two/", 0, WITHIN_A_LEASE_MS);
    await fleet.untilCounted("/open/", 0, WITHIN_A_LEASE_MS);
  });

  test("with 1,000 open WebSockets the service restarts: none is dropped, and the count is right", async () => {
    const open: SocketClient[] = [];
    let limited = 0;
    await waitFor("1,000 to be open", async () => {
      const { open: some, refused } = await fleet.connect("/many/", Math.min(50, 1_000 - open.length));
      open.push(...some);
      // A busy machine may make the store slow for a moment. No limit applies.
      limited += refused.filter(({ status }) => status !== 503).length;
      return open.length === 1_000;
    });
    expect(limited).toBe(0);
    const accepted = () => fleet.pods("/many/").reduce((sum, pod) => sum + pod.accepted(), 0);
    const before = accepted();
    await fleet.service().stop();
    await fleet.startService();
    await fleet.untilCounted("/many/", 1_000, WITHIN_A_LEASE_MS);
    // Leases that were not renewed would have expired by now.
    await pause(LEASE_MS);
    await fleet.untilCounted("/many/", 1_000, WITHIN_A_LEASE_MS);
    expect(open.every(isOpen)).toBe(true);
    expect(await envoysOnPage()).toEqual(["envoy-0", "envoy-1", 1_000]);
    expect([accepted(), fleet.live("/many/")]).toEqual([before, 1_000]);
    await endAll(open.splice(0, 400));
    await fleet.untilCounted("/many/", 600, WITHIN_A_LEASE_MS);
    const took = await timed(async () => {
      await endAll(open);
      await fleet.untilCounted("/many/", 0, WITHIN_A_LEASE_MS);
    });
    say("600 sockets were ended and free after", [took]);
  });

  test("a hot restart of Envoy keeps open WebSockets and their slots", async () => {
    const { open } = await fleet.connect("/two/", 10, 0);
    expect(open).toHaveLength(2);
    await fleet.envoys[0]!.reload();
    expect(open.map(isOpen)).toEqual([true, true]);
    expect((await fleet.connect("/two/", 4)).open).toHaveLength(0);
    // The old process ends after its drain time, with its connections.
    await Promise.all(open.map(({ ended }) => ended));
    await fleet.untilCounted("/two/", 0, WITHIN_A_LEASE_MS);
    const again = await fleet.connect("/two/", 10, 0);
    expect(again.open).toHaveLength(2);
    await endAll(again.open);
    await fleet.untilCounted("/two/", 0, WITHIN_A_LEASE_MS);
  });
});

/** Calls of the service that the Envoys wait for. */
async function asking(): Promise<number> {
  let sum = 0;
  for (const { admin } of fleet.envoys) {
    const text = await admin("/stats?filter=^cluster.tollgate_control.upstream_rq_active$");
    sum += Number(/: (\d+)/.exec(text)?.[1] ?? 0);
  }
  return sum;
}

/** Envoys in the service's metrics, with their connections. */
async function envoysOnPage(): Promise<(string | number)[]> {
  const { body } = await request(`${fleet.service().controlUrl}/metrics`);
  const lines = [...(await body.text()).matchAll(/^websocket_proxy_instance\{proxy_id="(envoy-\d)-\w+"\} (\d+)$/gm)];
  return [...lines.map(([, name]) => name!).sort(), lines.reduce((sum, [, , count]) => sum + Number(count), 0)];
}

/** Released connections that the store remembers. */
const booked = () => slotMembers(fleet.redis, "released");

/** A client that asks for a WebSocket and does not wait for the response. */
function beginUpgrade(envoy: number, path: string) {
  const socket = connectTcp(fleet.envoys[envoy]!.port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(upgradeHead({ path }));
  return socket;
}

const isOpen = ({ socket }: SocketClient) => socket.readyState === socket.OPEN;

async function endAll(clients: SocketClient[]): Promise<void> {
  for (const { socket } of clients) socket.terminate();
  await Promise.all(clients.map(({ ended }) => ended));
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** For information only; tests do not assert speed. */
function say(what: string, took: number[]): void {
  const sorted = [...took].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)]!;
  console.info(`${what} ${median.toFixed(0)} ms (median), ${sorted.at(-1)!.toFixed(0)} ms at most`);
}
