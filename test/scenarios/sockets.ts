/** Guarantees for WebSockets as scenarios for any plane. Each returns what the clients saw. */
import { expect } from "vitest";
import { connectSocket, expectOneEachSecond, type SocketClient } from "../support/socket-clients.js";
import { pause, waitFor } from "../support/wait-for.js";
import {
  type Connected,
  echoes,
  endAll,
  isOpen,
  type SocketRoute,
  type SocketWorld,
  type SocketWorldOptions,
} from "./socket-world.js";

/** Compared between planes: how many were admitted, and how the others were refused. */
export interface SocketVerdict {
  open: number;
  /** Status and reason, each once. */
  refusals: string[];
}

export type SocketScenario = (world: SocketWorld) => Promise<SocketVerdict>;

/** Scenarios that run in one environment, one after the other. */
export interface SocketAct {
  name: string;
  world: SocketWorldOptions;
  scenarios: [name: string, play: SocketScenario][];
}

/** Returns the result; logs of the instances are shown if it is wrong. No client is connected before or afterwards. */
export async function playSockets(world: SocketWorld, scenario: SocketScenario): Promise<SocketVerdict> {
  try {
    const verdict = await scenario(world);
    await world.clear();
    return verdict;
  } catch (error) {
    const logs = world.plane.instances.map((instance) => instance.log().slice(-2_000)).join("\n");
    const said = error instanceof Error ? error.message : String(error);
    throw new Error(`${world.kind}: ${said}\n${logs}`, { cause: error });
  }
}

const kinds = (refused: Connected["refused"]) => [
  ...new Set(refused.map(({ status, reason }) => `${status} ${reason}`)),
];

/** On a busy machine the store may be too slow, and 503 is correct then. */
const isSound = (refused: Connected["refused"]) => refused.every(({ status }) => status === 429);
const soundOnes = (refused: Connected["refused"]) => refused.filter(({ status }) => status === 429);

/** Opens this many connections. They are retried while the store is slow or recovering. */
async function opened(route: SocketRoute, count: number, instance?: number): Promise<SocketClient[]> {
  const open: SocketClient[] = [];
  await waitFor(`${count} to be open`, async () => {
    open.push(...(await route.connect(count - open.length, instance)).open);
    return open.length === count;
  });
  return open;
}

/** Every refusal has Retry-After. */
function expectTimes(refused: Connected["refused"]): void {
  for (const { retryAfter } of refused) expect(retryAfter).toBeGreaterThan(0);
}

/** 10 clients at once for one pod with two slots, over two instances with two workers each, repeatedly: exactly 2 are admitted. */
async function tenAtOnce(world: SocketWorld): Promise<SocketVerdict> {
  const rounds = 30;
  const route = world.route("two");
  const refusals: Connected["refused"] = [];
  let accepted = 0;
  for (let round = 1, sound = 0; sound < rounds; round++) {
    const { open, refused } = await route.connect(10);
    accepted += open.length;
    if (isSound(refused)) {
      expect([open.length, refused.length], `round ${round}: ${kinds(refused)}`).toEqual([2, 8]);
      refusals.push(...refused);
      sound++;
    } else {
      expect(open.length).toBeLessThanOrEqual(2);
      expect(round).toBeLessThan(3 * rounds);
    }
    await endAll(open);
    await route.untilCounted(0);
  }
  expectTimes(refusals);
  // Retries are spread.
  expect(new Set(refusals.map(({ retryAfter }) => retryAfter)).size).toBeGreaterThan(1);
  expect(route.mostOnAPod()).toBe(2);
  expect(route.pods[0]!.accepted()).toBe(accepted);
  return { open: 2, refusals: kinds(refusals) };
}

/** An app on a dry run is never refused, and connections above a limit take no slots of other apps. */
async function dryRun(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("two");
  const open = await opened(route, 1);
  const within = await waitFor("a connection on a dry run to have a slot", async () => {
    const trial = await route.connect(1, 0, "trial");
    if (trial.dryRun[0] === "pass") return trial;
    await endAll(trial.open);
    return undefined;
  });
  await route.untilCounted(2);
  const above = await waitFor("the store to refuse connections on a dry run", async () => {
    const trial = await route.connect(4, undefined, "trial");
    expect(trial.refused).toEqual([]);
    if (trial.dryRun.join() === "would-refuse; reason=LIMIT_EXCEEDED") return trial;
    await endAll(trial.open);
    return undefined;
  });
  for (const client of above.open) expect(await echoes(client)).toBe(true);
  await endAll(within.open);
  await route.untilCounted(1);
  // The four without a slot are not in the way.
  open.push(...(await opened(route, 1)));
  const { refused } = await route.connect(2);
  await world.redis.kill();
  const without = await route.connect(4, undefined, "trial");
  expect([without.refused, without.dryRun]).toEqual([[], ["would-refuse; reason=store_unavailable"]]);
  await world.redis.restart();
  await route.untilCounted(2);
  for (const client of [...open, ...above.open, ...without.open]) expect(await echoes(client)).toBe(true);
  return { open: above.open.length + without.open.length, refusals: kinds(soundOnes(refused)) };
}

/** All slots of all pods are used evenly, and requests go to the pod of the slot. A dead pod is skipped. */
async function severalPods(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("many");
  const onPods = () => route.pods.map(({ live }) => live.size);
  const open = await opened(route, 10);
  expect(onPods()).toEqual([2, 2, 2, 2, 2]);
  const { refused } = await route.connect(20);
  await endAll(open);
  await route.untilCounted(0);
  await route.pods[0]!.die();
  const without = await opened(route, 8);
  expect(onPods()).toEqual([0, 2, 2, 2, 2]);
  await route.pods[0]!.revive();
  return { open: open.length + without.length, refusals: kinds(soundOnes(refused)) };
}

/** One new connection per second over all instances: never more in any period, at any load. */
async function oneEachSecond(world: SocketWorld): Promise<SocketVerdict> {
  const seconds = 5;
  const { arrivals, connect } = world.route("slow");
  const start = performance.now();
  const admitted: { from: number; to: number }[] = [];
  const refused: Connected["refused"] = [];
  const hammer = async (instance: number) => {
    while (performance.now() - start < seconds * 1000) {
      const from = performance.now();
      const result = await connect(1, instance);
      if (result.open.length > 0) admitted.push({ from, to: performance.now() });
      refused.push(...result.refused);
      await pause(10);
    }
  };
  await Promise.all([hammer(0), hammer(1), hammer(0), hammer(1)]);
  expectOneEachSecond(admitted);
  expect(arrivals.length).toBeGreaterThanOrEqual(seconds - 2);
  expect(arrivals.length).toBeLessThanOrEqual(1 + (performance.now() - start) / 1000);
  expectTimes(refused);
  return { open: 0, refusals: kinds(soundOnes(refused)) };
}

/** Clients that leave while they are being admitted leave no slot behind. */
async function abortsDuringAdmission(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("ten");
  for (let round = 0; round < 8; round++) {
    const clients = Array.from({ length: 20 }, (_, i) => connectSocket(route.url(i % 2)));
    await Promise.all(
      clients.map(async ({ socket }, i) => {
        socket.on("error", () => undefined);
        await pause(i);
        socket.terminate();
      }),
    );
  }
  await waitFor("the pod to have no connections", () => route.live() === 0);
  await route.untilCounted(0);
  const open = await opened(route, 10);
  const { refused } = await route.connect(4);
  expect(route.mostOnAPod()).toBeLessThanOrEqual(10);
  return { open: open.length, refusals: kinds(soundOnes(refused)) };
}

/** Reloads under load: open connections stay for longer than a lease, and the limit holds. */
async function reloadsUnderLoad(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("ten");
  const staying = await opened(route, 8);
  let over = false;
  const refused: Connected["refused"] = [];
  const comeAndGo = async (instance: number) => {
    while (!over) {
      const connected = await route.connect(2, instance);
      refused.push(...connected.refused);
      await endAll(connected.open);
    }
  };
  const load = Promise.all([comeAndGo(0), comeAndGo(1)]);
  for (let i = 0; i < 4; i++) {
    await world.plane.instances[i % 2]!.reload();
    await pause(world.leaseMs / 4);
  }
  // Longer than a lease that is not renewed.
  await pause(1.5 * world.leaseMs);
  over = true;
  await load;
  for (const client of staying) expect(await echoes(client)).toBe(true);
  await route.untilCounted(8);
  expect(route.mostOnAPod()).toBeLessThanOrEqual(10);
  const open = await opened(route, 2);
  const { refused: late } = await route.connect(8);
  // Connections of processes from before the reload are released at once as well.
  await endAll(staying.slice(0, 5));
  await route.untilCounted(5);
  return { open: open.length, refusals: kinds(soundOnes([...refused, ...late])) };
}

/** Redis is killed with open connections: none is dropped, new ones follow on_store_failure, and all have slots afterwards. */
async function storeKilled(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("ten");
  const before = await opened(route, 10);
  let dropped = 0;
  for (const { ended } of before) void ended.then(() => dropped++);
  await world.redis.kill();
  const withoutStore = await route.connect(4);
  expect(withoutStore.open).toEqual([]);
  expectTimes(withoutStore.refused);
  await pause(1.2 * world.leaseMs);
  // It restarts empty: the gateways restore the slots.
  await world.redis.restart();
  await route.untilCounted(10, 20_000);
  const late = await waitFor("new connections to be refused by the limit", async () => {
    const { open, refused } = await route.connect(2);
    expect(open).toEqual([]);
    return refused.every(({ status }) => status === 429) && refused;
  });
  expect(route.live()).toBe(10);
  expect(dropped).toBe(0);
  return { open: before.length, refusals: [...kinds(withoutStore.refused), ...kinds(late)] };
}

/** After a kill: other connections stay, the slots of the killed ones are free within a lease, and exactly that many can connect. */
async function afterDeath(world: SocketWorld, route: SocketRoute, before: SocketClient[]): Promise<SocketVerdict> {
  const staying = await waitFor("the pod to lose some connections", () => {
    const open = before.filter(isOpen);
    return open.length < before.length && open.length === route.live() && open;
  });
  await route.untilCounted(staying.length, 3 * world.leaseMs);
  const open = await opened(route, 10 - staying.length, 0);
  const { refused } = await route.connect(5, 0);
  expect(route.mostOnAPod()).toBe(10);
  for (const client of [...staying, ...open]) expect(await echoes(client)).toBe(true);
  return { open: staying.length + open.length, refusals: kinds(soundOnes(refused)) };
}

/** A worker is killed with SIGKILL: only its connections are gone, and their slots are free. */
async function workerKilled(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("ten");
  const before = await opened(route, 10);
  // All connections may be on one of the workers.
  for (const worker of world.plane.instances[1]!.workers()) {
    process.kill(worker, "SIGKILL");
    for (let i = 0; i < 50 && route.live() === 10; i++) await pause(100);
    if (route.live() < 10) break;
  }
  return afterDeath(world, route, before);
}

/** An instance is killed with SIGKILL: the other continues, and the slots are free when the leases expire. */
async function instanceKilled(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("ten");
  const before = await opened(route, 10);
  await world.plane.instances[1]!.killAll();
  return afterDeath(world, route, before);
}

/**
 * With on_store_failure `open`, all connections are admitted while the store is unavailable. Those above the limit are closed when
 * it is back; those from before are not.
 */
async function tooManyInTheDark(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("open");
  const before = await opened(route, 1, 0);
  await world.redis.kill();
  // The first request of each instance may detect the outage.
  const { open, refused } = await route.connect(10);
  expect([open.length, refused]).toEqual([10, []]);
  await world.redis.restart();
  await waitFor("connections above the limit to be closed", () => route.live() === 3);
  await route.untilCounted(3);
  await waitFor("their clients to see it", () => [...before, ...open].filter(isOpen).length === 3);
  return { open: open.length, refusals: kinds(refused) };
}

/**
 * One client opens as many sockets as it can, over all instances, and leaves them idle: it gets its share of the slots, and
 * another client is admitted. When the first one leaves, its share is free again.
 */
async function oneClientTakesAll(world: SocketWorld): Promise<SocketVerdict> {
  const route = world.route("fifty");
  const connect = (count: number, address: string) => route.connect(count, undefined, "default", address);
  const open: SocketClient[] = [];
  const refused: Connected["refused"] = [];
  await waitFor("the client's share to be taken", async () => {
    const more = await connect(10, "192.0.2.1");
    open.push(...more.open);
    refused.push(...more.refused);
    return open.length >= 20 && more.open.length === 0;
  });
  expect(open.length).toBe(20);
  expectTimes(refused);
  const others: SocketClient[] = [];
  await waitFor("another client to be admitted", async () => {
    others.push(...(await connect(5 - others.length, "192.0.2.2")).open);
    return others.length === 5;
  });
  await route.untilCounted(25);
  // Longer than a lease: renewals keep the client's count.
  await pause(1.2 * world.leaseMs);
  expect((await connect(2, "192.0.2.1")).open).toEqual([]);
  await endAll([...open.slice(0, 3), ...others]);
  await route.untilCounted(17);
  await waitFor("the free part of the share to be taken", async () => {
    open.push(...(await connect(23 - open.length, "192.0.2.1")).open);
    return open.length === 23;
  });
  return { open: open.length, refusals: kinds(soundOnes(refused)) };
}

export const socketActs: SocketAct[] = [
  {
    name: "two instances with two workers each",
    world: {
      leaseSeconds: 3,
      routes: {
        two: { pods: 1, connections: { max_per_pod: 2 } },
        many: { pods: 5, connections: { max_per_pod: 2 } },
        slow: { pods: 1, connections: { max_per_pod: 1000, rate_per_second: 1, burst: 1 } },
        ten: { pods: 1, connections: { max_per_pod: 10 } },
        fifty: { pods: 1, connections: { max_per_pod: 50 } },
      },
    },
    scenarios: [
      ["one client opens all that it can", oneClientTakesAll],
      ["10 at once on two slots", tenAtOnce],
      ["several pods, and one that is gone", severalPods],
      ["one new connection per second", oneEachSecond],
      ["clients that give up", abortsDuringAdmission],
      ["reloads under load", reloadsUnderLoad],
      ["Redis killed", storeKilled],
      ["an app on a dry run", dryRun],
      ["a worker killed", workerKilled],
    ],
  },
  {
    name: "two instances with one worker each",
    world: {
      ...{ workers: 1, leaseSeconds: 3 },
      routes: {
        open: { pods: 1, connections: { max_per_pod: 3, on_store_failure: "open" } },
        ten: { pods: 1, connections: { max_per_pod: 10 } },
      },
    },
    scenarios: [
      ["Redis killed, and too many let in", tooManyInTheDark],
      ["an instance killed", instanceKilled],
    ],
  },
];
