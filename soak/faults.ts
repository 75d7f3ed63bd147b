/** The faults of a soak test, and what each of them permits. */
import { pause } from "../test/support/wait-for.js";
import type { FaultRecord } from "./history.js";
import { NODE_TTL_MS, type World } from "./world.js";

export type FaultEffects = Partial<Omit<FaultRecord, "name" | "from" | "to" | "unavailableTo">>;

export interface Fault {
  name: string;
  effects: FaultEffects;
  /** Resolves when the fault is over. Calls `answers` before the store can answer again, if it did not. */
  play(world: World, durationMs: number, answers: () => void): Promise<void>;
}

const names = ["service-a", "service-b"];
const unavailable: FaultEffects = { withoutStore: true };

const redisFaults: Fault[] = [
  {
    name: "Redis killed",
    effects: unavailable,
    async play({ redis }, durationMs, answers) {
      await redis.kill();
      await pause(durationMs);
      answers();
      await redis.restart();
    },
  },
  {
    name: "Redis stopped",
    effects: unavailable,
    async play({ redis }, durationMs, answers) {
      redis.stop();
      await pause(durationMs);
      answers();
      redis.resume();
    },
  },
  {
    name: "Redis cut off",
    effects: unavailable,
    async play({ redis }, durationMs, answers) {
      redis.cut();
      await pause(durationMs);
      answers();
      redis.heal();
    },
  },
  {
    name: "Redis slow",
    effects: { withoutStore: true },
    async play({ redis }, durationMs) {
      for (let passed = 0; passed < durationMs; passed += 250) {
        redis.command("CLIENT", "PAUSE", 150, "ALL").catch(() => {});
        await pause(250);
      }
    },
  },
  {
    name: "Redis full",
    effects: unavailable,
    async play({ redis }, durationMs, answers) {
      await redis.command("CONFIG", "SET", "maxmemory", 1);
      await pause(durationMs);
      answers();
      await redis.command("CONFIG", "SET", "maxmemory", 0);
    },
  },
  {
    name: "functions removed",
    effects: {},
    play: async ({ redis }) => void (await redis.command("FUNCTION", "FLUSH")),
  },
  {
    name: "clock of Redis one hour ahead",
    effects: { refilled: true },
    play: async ({ redis }) => redis.stepClock(3_600),
  },
  {
    name: "clock of Redis ten seconds back",
    effects: {},
    play: async ({ redis }) => redis.stepClock(-10),
  },
];

const serviceFaults: Fault[] = [0, 1].flatMap((i): Fault[] => {
  const planes = [names[i]!];
  return [
    {
      name: `${names[i]} killed`,
      // Until nginx and Envoy use the other service, they decide without the store.
      effects: { planes, lostNodes: 1, withoutStore: true },
      async play(world, durationMs) {
        world.service(i).killAll();
        await world.service(i).ended;
        await pause(durationMs);
        await world.restartService(i);
      },
    },
    {
      name: `${names[i]} stopped`,
      effects: { planes, lostNodes: 1, withoutStore: true },
      async play(world, durationMs) {
        world.service(i).signalAll("SIGSTOP");
        await pause(durationMs);
        world.service(i).signalAll("SIGCONT");
      },
    },
    {
      name: `${names[i]} restarted`,
      effects: { planes, withoutStore: true },
      async play(world) {
        world.service(i).kill("SIGTERM");
        await world.service(i).ended;
        await world.restartService(i);
      },
    },
  ];
});

const proxyFaults: Fault[] = [
  {
    name: "nginx killed",
    effects: { planes: ["nginx"], lostNodes: 1 },
    async play(world, durationMs) {
      await world.nginx().killAll();
      await pause(durationMs);
      await world.restartNginx();
    },
  },
  {
    name: "nginx worker killed",
    effects: { planes: ["nginx"] },
    async play(world) {
      for (const pid of world.nginx().workers()) process.kill(pid, "SIGKILL");
    },
  },
  {
    name: "nginx stopped",
    effects: { planes: ["nginx"], lostNodes: 1 },
    play: (world, durationMs) => stopped(world.nginx().workers(), durationMs),
  },
  {
    name: "nginx reloaded",
    effects: { planes: ["nginx"] },
    play: (world) => world.nginx().reload(),
  },
  {
    name: "Envoy killed",
    effects: { planes: ["envoy"], lostNodes: 1 },
    async play({ envoy }, durationMs) {
      await envoy.killAll();
      await pause(durationMs);
      await envoy.start();
    },
  },
  {
    name: "Envoy stopped",
    effects: { planes: ["envoy"], lostNodes: 1 },
    play: ({ envoy }, durationMs) => stopped([envoy.pid()], durationMs),
  },
];

async function stopped(pids: number[], durationMs: number): Promise<void> {
  for (const pid of pids) process.kill(pid, "SIGSTOP");
  await pause(durationMs);
  for (const pid of pids) process.kill(pid, "SIGCONT");
}

export const faults: readonly Fault[] = [...redisFaults, ...serviceFaults, ...proxyFaults];

/** Longer and shorter than the time after which a node is declared dead. */
export function faultDurationMs(random: () => number): number {
  return 2_000 + random() * (NODE_TTL_MS + 1_000);
}

/** `unavailableTo`: as in the record. */
export function recordOf(fault: Fault, from: number, to: number, unavailableTo = 0): FaultRecord {
  const none = { withoutStore: false, lostNodes: 0, refilled: false, planes: [] };
  return { name: fault.name, from, to, unavailableTo, ...none, ...fault.effects };
}
