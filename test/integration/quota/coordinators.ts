/** Starts coordinators as in separate services: each has its own store and learns of emergencies only by message. */

import { emergencyChannel } from "../../../src/core/keys.js";
import { type Coordinator, createCoordinator } from "../../../src/quota/coordinator.js";
import type { EmergencyState } from "../../../src/quota/emergency-watch.js";
import { createQuota } from "../../../src/quota/quota.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { loopMs } from "../../support/loop-time.js";
import type { RedisServer } from "../../support/redis-server.js";
import { waitFor } from "../../support/wait-for.js";

export const CLUSTER = "c1";
const app = { id: "video", guaranteed: 100, burst: 200, priority: 1, borrow: false };
/** Longer than any test: the coordinators do not poll the store. */
const NEVER = 3_600_000;

export interface Service {
  store: Store;
  coordinator: Coordinator;
  received: EmergencyState[];
  close(): Promise<void>;
}

export function startService(url: string, node: string, checkMs = NEVER): Service {
  const store = createRedisStore({ url, deadlineMs: 1000 });
  const quota = createQuota(store, { id: CLUSTER, capacity: 1000, rate: 1000, nodeTtlMs: 3000 });
  const received: EmergencyState[] = [];
  const coordinator = createCoordinator({
    ...{ quota, store, clusterId: CLUSTER, node, apps: () => [app] },
    checkMs,
    ...{ cooldownMs: 30_000, reconcileMs: NEVER, automaticEmergency: true, driftTolerance: 0.1 },
    observer: { emergencyChanged: (state) => received.push(state) },
  });
  return {
    ...{ store, coordinator, received },
    async close() {
      await coordinator.close();
      await store.close();
    },
  };
}

/** Number of subscribers of the emergency channel on this server. */
export async function listenersAt(server: RedisServer): Promise<number> {
  const reply = (await server.command("PUBSUB", "NUMSUB", emergencyChannel(CLUSTER))) as [string, number];
  return Number(reply[1]);
}

/** Waits until `count` subscribers are connected, on any of the servers. */
export async function untilListening(servers: RedisServer[], count: number): Promise<void> {
  await waitFor(`${count} subscribers`, async () => {
    const counts = await Promise.all(servers.map(listenersAt));
    return counts.reduce((sum, one) => sum + one, 0) === count;
  });
}

/**
 * Turns the emergency on and off at the first service and waits until all services received both messages.
 * Returns the longest time until all had received a message, in milliseconds.
 */
export async function expectAllToHear(services: Service[], withinMs = 60_000): Promise<number> {
  let slowest = 0;
  for (const active of [true, false]) {
    for (const { received } of services) received.length = 0;
    const begun = loopMs();
    const [first] = services;
    if (active) await first?.coordinator.emergencyOn(0, "test", "sre");
    else await first?.coordinator.emergencyOff();
    await waitFor(
      `all services to learn that the emergency is ${active ? "on" : "off"}`,
      () => services.every(({ received }) => received.at(-1)?.active === active),
      { everyMs: 5, withinMs },
    );
    slowest = Math.max(slowest, loopMs() - begun);
  }
  return slowest;
}

/**
 * Like `expectAllToHear`, but repeats it. After a fault, a service misses messages until it has reconnected, and the
 * test cannot observe when the last service has.
 */
export async function untilAllHear(services: Service[]): Promise<void> {
  const retrying = async () => {
    try {
      await expectAllToHear(services, 3_000);
      return true;
    } catch (error) {
      await services[0]?.coordinator.emergencyOff();
      throw error;
    }
  };
  await waitFor("all services to learn of an emergency", retrying);
}
