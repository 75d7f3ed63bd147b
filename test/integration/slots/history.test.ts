/** A random history on a real Redis: gateways are killed and paused, Redis stops, connections to it break. The seed is printed. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { createRouteSlots } from "../../../src/slots/slots.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { createRandom } from "../../support/random.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { startTcpProxy, type TcpProxy } from "../../support/tcp-proxy.js";
import { pause, waitFor } from "../../support/wait-for.js";
import { CLUSTER, type Gateway, limits, ROUTE, startGateway } from "./gateways.js";

const SEED = Number(process.env.SLOT_HISTORY_SEED ?? Math.floor(Math.random() * 1_000_000_000));
const STEPS = Number(process.env.SLOT_HISTORY_STEPS ?? 250);
const LEASE_MS = 1_500;
const PODS = ["pod-1", "pod-2", "pod-3"];
const MOST_PER_POD = 2;
const route = limits({ maxPerPod: MOST_PER_POD, leaseMs: LEASE_MS });

interface Actor extends Gateway {
  way: TcpProxy;
  paused: boolean;
}

let redis: RedisServer;
let beside: Store;
const actors: Actor[] = [];

beforeAll(async () => {
  redis = await startRedis();
  beside = createRedisStore({ url: redis.url, deadlineMs: 5_000 });
});
afterAll(async () => {
  redis.resume();
  for (const actor of actors) {
    await actor.stop();
    await actor.way.stop();
  }
  await beside.close();
  await redis.stop();
});

async function start(): Promise<Actor> {
  const way = await startTcpProxy(redis.port);
  const gateway = startGateway(`redis://127.0.0.1:${way.port}`, route, { timeoutMs: 300 });
  return Object.assign(gateway, { way, paused: false });
}

it(`no pod exceeds its limit, and the counts are correct one lease after the last fault (seed ${SEED})`, async () => {
  const random = createRandom(SEED);
  const below = (most: number) => Math.floor(random() * most);
  const slots = createRouteSlots(beside, CLUSTER).of(ROUTE);
  for (let i = 0; i < 3; i++) actors.push(await start());
  const one = () => actors[below(actors.length)]!;
  const done: Record<string, number> = {};
  let admitted = 0;
  let stopped = false;

  const acts: [weight: number, name: string, act: () => Promise<void> | void][] = [
    [45, "connect", () => connect(one())],
    [20, "end", () => end(one())],
    [4, "pause", () => pauseOne(one())],
    [6, "resume", () => resumeOne(one())],
    [3, "kill", kill],
    [3, "reset", () => one().way.resetAll()],
    [3, "lose a reply", () => void one().way.loseReply("SUCCESS")],
    [2, "cut off", () => cutOff(one())],
    [2, "stop Redis", stopRedis],
    [12, "wait", () => pause(below(300))],
  ];
  const weights = acts.reduce((sum, [weight]) => sum + weight, 0);

  function connect(gateway: Actor): void {
    if (gateway.paused) return;
    const pods = PODS.filter(() => random() < 0.7);
    if (pods.length === 0) return;
    void gateway.connect(pods).then((verdict) => {
      if (verdict.allowed) admitted++;
    });
  }

  function end(gateway: Actor): void {
    const ids = [...gateway.open.keys()];
    if (!gateway.paused) gateway.end(ids[below(ids.length)] ?? "");
  }

  function pauseOne(gateway: Actor): void {
    gateway.paused = true;
    gateway.pause();
  }

  async function resumeOne(gateway: Actor): Promise<void> {
    gateway.paused = false;
    await gateway.resume();
  }

  async function kill(): Promise<void> {
    const [gone] = actors.splice(below(actors.length), 1, await start());
    await gone?.kill();
    await gone?.way.stop();
  }

  async function cutOff(gateway: Actor): Promise<void> {
    gateway.way.refuse = true;
    gateway.way.resetAll();
    await pause(below(2 * LEASE_MS));
    gateway.way.refuse = false;
  }

  async function stopRedis(): Promise<void> {
    stopped = true;
    redis.pause();
    await pause(below(2 * LEASE_MS));
    redis.resume();
    stopped = false;
  }

  const onPod = (gateway: Actor, pod: string) => [...gateway.open.values()].filter((open) => open.pod === pod).length;
  /** A running gateway that has recovered holds slots for all its connections. */
  const isSure = (gateway: Actor) => !gateway.paused && !gateway.way.refuse && gateway.keeper.stats().recovered;

  async function check(): Promise<void> {
    const { perPod } = await slots.counts(PODS, LEASE_MS);
    for (const pod of PODS) {
      expect(perPod.get(pod), `slots taken on ${pod}`).toBeLessThanOrEqual(MOST_PER_POD);
      const live = actors.filter(isSure).reduce((sum, gateway) => sum + onPod(gateway, pod), 0);
      expect(live, `connections on ${pod}`).toBeLessThanOrEqual(MOST_PER_POD);
    }
  }

  for (let i = 0; i < STEPS; i++) {
    let at = random() * weights;
    const [, name, act] = acts.find(([weight]) => {
      at -= weight;
      return at < 0;
    })!;
    done[name] = (done[name] ?? 0) + 1;
    await act();
    await pause(below(20));
    if (!stopped) await check();
  }

  for (const gateway of actors) await resumeOne(gateway);
  await waitFor("all gateways to recover", () => actors.every(isSure));
  await waitFor(
    "the counts to match the open connections",
    async () => {
      const { perPod } = await slots.counts(PODS, LEASE_MS);
      return PODS.every((pod) => perPod.get(pod) === actors.reduce((sum, gateway) => sum + onPod(gateway, pod), 0));
    },
    { withinMs: LEASE_MS + 10_000 },
  );
  await check();
  expect(admitted).toBeGreaterThan(0);
}, 180_000);
