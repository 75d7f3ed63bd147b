/** Two gateway processes, one Redis, real WebSocket clients: no pod ever has more connections than its limit. */

import { afterEach, describe, expect, it } from "vitest";
import { slotMembers } from "../support/slot-keys.js";
import { connectSocket, expectOneEachSecond, type SocketClient } from "../support/socket-clients.js";
import { startSocketFleet } from "../support/socket-gateways.js";
import { pause, waitFor } from "../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function outcomes(clients: SocketClient[]) {
  const all = await Promise.all(clients.map(({ outcome }) => outcome));
  return {
    open: clients.filter((_, i) => all[i]?.open === true),
    refused: all.flatMap((outcome) => (outcome.open ? [] : [outcome])),
  };
}

async function endAll(clients: SocketClient[]): Promise<void> {
  for (const { socket } of clients) socket.terminate();
  await Promise.all(clients.map(({ ended }) => ended));
}

describe("simultaneous connections to two gateways", () => {
  it("to one pod with two slots: of 10 exactly 2 open and 8 are refused with 429, 100 times in a row", async () => {
    const fleet = await startSocketFleet({
      ...{ gateways: 2, pods: 1, endings },
      connections: "max_per_pod: 2, max_total: 0, rate_per_second: 0, lease_s: 10",
    });
    const [pod] = fleet.pods as [(typeof fleet.pods)[number]];
    let most = 0;
    for (let round = 1; round <= 100; round++) {
      const clients = Array.from({ length: 10 }, (_, i) => connectSocket(fleet.url(i % 2)));
      const { open, refused } = await outcomes(clients);
      most = Math.max(most, pod.live.size);
      expect([open.length, refused.length], `round ${round}: ${JSON.stringify(refused)}`).toEqual([2, 8]);
      for (const { status, reason, retryAfter } of refused) {
        expect([status, reason]).toEqual([429, "LIMIT_EXCEEDED"]);
        expect(retryAfter).toBeGreaterThan(0);
      }
      await endAll(clients);
      // The gateways release the slots when they see the end; earlier attempts are refused.
      await waitFor("both slots to be free", async () => (await slotsTaken(fleet)) === 0);
    }
    expect(most).toBeLessThanOrEqual(2);
    expect(pod.accepted()).toBe(200);
  });

  it("to 5 pods with 10 slots: of 30 exactly 10 open, 2 on each pod", async () => {
    const fleet = await startSocketFleet({
      ...{ gateways: 2, pods: 5, endings },
      connections: "max_per_pod: 2, max_total: 0, rate_per_second: 0, lease_s: 10",
    });
    for (let round = 1; round <= 10; round++) {
      const clients = Array.from({ length: 30 }, (_, i) => connectSocket(fleet.url(i % 2)));
      const { open, refused } = await outcomes(clients);
      expect([open.length, refused.length]).toEqual([10, 20]);
      await waitFor("all pods to have two connections", () => fleet.pods.every(({ live }) => live.size === 2));
      await endAll(clients);
      await waitFor("all slots to be free", async () => (await slotsTaken(fleet)) === 0);
    }
  });

  async function slotsTaken(fleet: Awaited<ReturnType<typeof startSocketFleet>>): Promise<number> {
    return slotMembers(fleet.redis, "global_conn");
  }
});

describe("two clusters on one Redis", () => {
  it("have their own limits and rates, also for routes of the same name", async () => {
    const connections = "max_per_pod: 2, max_total: 2, rate_per_second: 0.01, burst: 3, lease_s: 10";
    const production = await startSocketFleet({ ...{ gateways: 1, pods: 1, endings }, connections });
    const { redis } = production;
    const staging = await startSocketFleet({
      ...{ gateways: 1, pods: 1, endings, connections, redis, yaml: "cluster: { id: staging }" },
    });
    for (const fleet of [staging, production]) {
      const clients = Array.from({ length: 6 }, () => connectSocket(fleet.url(0)));
      const { open, refused } = await outcomes(clients);
      expect([open.length, refused.length]).toEqual([2, 4]);
      expect(new Set(refused.map(({ reason }) => reason))).toEqual(new Set(["LIMIT_EXCEEDED"]));
    }
    expect(await slotMembers(redis, "global_conn")).toBe(4);
  });
});

describe("new connections at one per second over all gateways", () => {
  it("under 10 s of overload: never more than the rate allows in any period", async () => {
    const arrivals: number[] = [];
    const fleet = await startSocketFleet({
      ...{ gateways: 2, pods: 2, endings },
      connections: "max_per_pod: 1000, max_total: 0, rate_per_second: 1, burst: 1, lease_s: 30",
      opened: () => arrivals.push(performance.now()),
    });
    const start = performance.now();
    const admitted: { from: number; to: number }[] = [];
    const clients: SocketClient[] = [];
    const hammer = async (gateway: number) => {
      while (performance.now() - start < 10_000) {
        const from = performance.now();
        const client = connectSocket(fleet.url(gateway));
        clients.push(client);
        const outcome = await client.outcome;
        if (outcome.open) admitted.push({ from, to: performance.now() });
        else expect([outcome.status, outcome.reason]).toEqual([429, "RATE_LIMITED"]);
        await pause(10);
      }
    };
    await Promise.all([hammer(0), hammer(1), hammer(0), hammer(1)]);
    expectOneEachSecond(admitted);
    expect(arrivals.length).toBeGreaterThanOrEqual(7);
    expect(arrivals.length).toBeLessThanOrEqual(1 + (performance.now() - start) / 1000);
    for (const { socket } of clients) socket.terminate();
  });
});

describe("while Redis is away for three leases", () => {
  it("1,000 open connections stay, all have slots afterwards, and new ones get 503 meanwhile", async () => {
    const fleet = await startSocketFleet({
      ...{ gateways: 2, pods: 2, endings },
      connections: "max_per_pod: 500, max_total: 0, rate_per_second: 0, lease_s: 5",
    });
    const clients: SocketClient[] = [];
    for (let i = 0; i < 20; i++) {
      const some = Array.from({ length: 50 }, (_, j) => connectSocket(fleet.url(j % 2)));
      expect((await outcomes(some)).refused).toEqual([]);
      clients.push(...some);
    }
    let dropped = 0;
    for (const { ended } of clients) void ended.then(() => dropped++);
    await fleet.redis.kill();
    const late = await connectSocket(fleet.url(0)).outcome;
    expect(late).toMatchObject({ open: false, status: 503, reason: "store_unavailable" });
    await pause(15_000);
    expect(dropped).toBe(0);
    // It restarts empty: the gateways restore the slots.
    await fleet.redis.restart();
    await waitFor("every connection to be counted again", async () => {
      const counts = await Promise.all(
        fleet.pods.map(({ address }) => slotMembers(fleet.redis, `pod_conn:${address}`)),
      );
      return counts.every((count) => count === 500);
    });
    expect(dropped).toBe(0);
    // A recovering gateway admits nothing; after the recovery the limit refuses.
    await waitFor("new connections to be refused by the limit", async () => {
      const late = await connectSocket(fleet.url(1)).outcome;
      expect(late.open).toBe(false);
      return !late.open && late.status === 429 && late.reason === "LIMIT_EXCEEDED";
    });
    for (const { socket } of clients) socket.terminate();
    await waitFor("all slots to be free", async () => (await slotMembers(fleet.redis, "global_conn")) === 0);
  });
});
