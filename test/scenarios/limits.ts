/** What a plane promises about limits, as scenarios that any plane can be put through; each answers what was seen. */
import { request } from "undici";
import { expect } from "vitest";
import { type Answered, sendLoad } from "../support/gateway-process.js";
import type { PlaneKind } from "../support/planes.js";
import { pause, waitFor } from "../support/wait-for.js";
import { BY_REQUEST, startWorld, type World, type WorldOptions } from "./world.js";

/** Compared between planes: what a client sees, without the times. */
export interface Verdict {
  statuses: number[];
  reasons: string[];
}

/** A connection that a dying process had accepted, but not begun to read, may never be answered. */
const PATIENCE_MS = 10_000;
const steadyLoad = (url: string, app: string, perSecond: number, seconds: number) =>
  sendLoad(url, app, perSecond, seconds, PATIENCE_MS);

/** An app that is never let pass without the store, so that what passes can be counted. */
const metered = (rate: number, burst: number) =>
  `metered: { guaranteed: ${rate}, burst: ${burst}, on_store_failure: closed, ${BY_REQUEST} }`;

const statusesOf = (answers: Answered[]) => [...new Set(answers.map(({ status }) => status))].sort();

/**
 * The statuses where the store is well. On a machine that is busy with something else it may look slow for a while, and
 * then 503 is right for apps that never pass without it.
 */
const wellStatusesOf = (answers: Answered[]) => statusesOf(answers).filter((status) => status !== 503);
/** The part of the answers that such a machine has not spoilt. */
const wellShare = (answers: Answered[]) => answers.filter(({ status }) => status !== 503).length / answers.length;

const passedOf = (answers: Answered[]) => answers.filter(({ status }) => status === 200);

async function inWorld<T>(kind: PlaneKind, options: WorldOptions, play: (world: World) => Promise<T>): Promise<T> {
  const world = await startWorld(kind, options);
  try {
    return await play(world);
  } catch (error) {
    const logs = world.plane.instances.map((instance) => instance.log().slice(-2_000)).join("\n");
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${logs}`, { cause: error });
  } finally {
    await world.stop();
  }
}

/** One request: what came back. */
export async function ask(url: string, app: string): Promise<{ status: number; reason: string; headers: unknown }> {
  const { statusCode, headers, body } = await request(url, { headers: { "x-app-id": app } });
  const text = await body.text();
  const reason = statusCode === 200 ? "" : (JSON.parse(text) as { reason: string }).reason;
  return { status: statusCode, reason, headers };
}

/** On a busy machine the store may look slow at first. */
async function untilPasses(url: string, app: string): Promise<void> {
  await waitFor(`${app} to pass`, async () => (await ask(url, app)).status === 200, { withinMs: 30_000 });
}

/** Why an app is refused: many requests at once, until one of them is, with this status. */
async function refusalOf(url: string, app: string, wanted: number): Promise<string> {
  return waitFor("a refusal", async () => {
    const answers = await Promise.all(Array.from({ length: 100 }, () => ask(url, app)));
    return answers.find(({ status }) => status === wanted)?.reason;
  });
}

async function loadAll(world: World, app: string, perSecond: number, seconds: number, shares: number[]) {
  const loads = world.plane.instances.map(({ url }, i) => steadyLoad(url, app, perSecond * (shares[i] ?? 0), seconds));
  return (await Promise.all(loads)).flat();
}

/** Two instances with four workers, load 90 to 10: together at most burst + rate × time, and the refill is used. */
export function skewedLoad(kind: PlaneKind): Promise<Verdict> {
  const [rate, burst, seconds] = [200, 200, 8];
  return inWorld(kind, { apps: metered(rate, burst) }, async (world) => {
    const answers = await loadAll(world, "metered", 600, seconds, [0.9, 0.1]);
    const passed = passedOf(answers);
    const from = Math.min(...answers.map(({ sentAt }) => sentAt));
    const elapsed = (Math.max(...passed.map(({ at }) => at)) - from) / 1000;
    expect(passed.length).toBeLessThanOrEqual(burst + rate * elapsed);
    expect((passed.length - burst) / (rate * seconds)).toBeGreaterThanOrEqual(0.96 * wellShare(answers));
    const reason = await refusalOf(world.plane.instances[0]!.url, "metered", 429);
    return { statuses: wellStatusesOf(answers), reasons: [reason] };
  });
}

/** A flood of requests that cannot be paid costs the store next to nothing: a refusal is remembered. */
export function floodOfRefused(kind: PlaneKind): Promise<Verdict> {
  return inWorld(
    kind,
    { apps: `scarce: { guaranteed: 1, burst: 5, on_store_failure: closed, ${BY_REQUEST} }` },
    async (world) => {
      // Until nobody holds tokens any more: what is on a lease comes on top of what the bucket may hold.
      const passing = async () => passedOf(await loadAll(world, "scarce", 100, 1, [0.5, 0.5])).length;
      await waitFor("all to be spent", async () => (await passing()) <= 2);
      await world.storeCalls();
      const begun = performance.now();
      const answers = await loadAll(world, "scarce", 1000, 4, [0.5, 0.5]);
      const calls = await world.storeCalls();
      const elapsed = (performance.now() - begun) / 1000;
      const background = world.plane.instances.length * 2 * 1.5 * elapsed + 4 * 3 * elapsed;
      expect((calls - background) / answers.length).toBeLessThanOrEqual(0.01);
      expect(passedOf(answers).length).toBeLessThanOrEqual(5 + elapsed + 1);
      const reason = await refusalOf(world.plane.instances[0]!.url, "scarce", 429);
      return { statuses: wellStatusesOf(answers), reasons: [reason] };
    },
  );
}

const POLICIES = [
  `open: { guaranteed: 100000, burst: 100000, on_store_failure: open, ${BY_REQUEST} }`,
  `local: { guaranteed: 40, burst: 40, on_store_failure: local, ${BY_REQUEST} }`,
  `closed: { guaranteed: 1000, burst: 1000, on_store_failure: closed, ${BY_REQUEST} }`,
].join(", ");

/** While the store is gone each app's policy holds, a failure is never a 429, and all is as before once it is back. */
export function storeGone(kind: PlaneKind, how: "killed" | "stopped"): Promise<Verdict> {
  const yaml = "fail_open_tokens: 20\nlease: { timeout_ms: 500 }\n";
  return inWorld(kind, { apps: POLICIES, yaml, instances: 1, workers: 2 }, async (world) => {
    const [{ url }] = world.plane.instances as [World["plane"]["instances"][number]];
    for (const app of ["open", "local", "closed"]) await untilPasses(url, app);
    if (how === "killed") await world.redis.kill();
    else world.redis.pause();
    await waitFor("the failure to be noticed", async () => (await ask(url, "closed")).status === 503, {
      withinMs: 20_000,
    });
    const reasons: string[] = [];
    const statuses = new Set<number>();
    for (const app of ["open", "closed"]) {
      const answers = await steadyLoad(url, app, 300, 2);
      for (const { status } of answers) statuses.add(status);
      const slowest = Math.max(...answers.map(({ at, sentAt }) => at - sentAt));
      expect(slowest).toBeLessThan(5_000);
      const reason = await refusalOf(url, app, 503);
      reasons.push(`${app} ${reason}`);
    }
    if (how === "killed") await world.redis.restart();
    else world.redis.resume();
    await untilPasses(url, "closed");
    return { statuses: [...statuses].sort(), reasons };
  });
}

/** A store that is late by 300 ms: nobody waits longer than the timeout, and nothing is refused as if it were the limit. */
export function storeSlow(kind: PlaneKind): Promise<Verdict> {
  const yaml = "fail_open_tokens: 1000\n";
  return inWorld(kind, { apps: `ample: { guaranteed: 5000, burst: 5000, ${BY_REQUEST} }`, yaml }, async (world) => {
    await loadAll(world, "ample", 100, 1, [0.5, 0.5]);
    world.link.delayMs = 300;
    const answers = await loadAll(world, "ample", 300, 4, [0.5, 0.5]);
    expect(Math.max(...answers.map(({ at, sentAt }) => at - sentAt))).toBeLessThan(4_000);
    expect(answers.filter(({ status }) => status === 429)).toEqual([]);
    world.link.delayMs = 0;
    await untilPasses(world.plane.instances[0]!.url, "ample");
    return { statuses: statusesOf(passedOf(answers)), reasons: [] };
  });
}

/** An emergency reaches every instance within a second, blocks low priorities, spares the highest, and ends. */
export function emergency(kind: PlaneKind): Promise<Verdict> {
  const apps = [
    `vital: { guaranteed: 1000, burst: 1000, priority: 0, ${BY_REQUEST} }`,
    `minor: { guaranteed: 1000, burst: 1000, priority: 3, ${BY_REQUEST} }`,
  ].join(", ");
  return inWorld(kind, { apps, yaml: "" }, async (world) => {
    const urls = world.plane.instances.map(({ url }) => url);
    for (const url of urls) for (const app of ["vital", "minor"]) await untilPasses(url, app);
    const steady = Promise.all(urls.flatMap((url) => ["vital", "minor"].map((app) => steadyLoad(url, app, 50, 3))));
    await pause(500);
    await world.quota.emergencyOn(60_000, "a test", "the test", "emergency-on-1");
    const verdicts: string[] = [];
    for (const url of urls) {
      const { reason } = await waitFor("the emergency", async () => {
        const answer = await ask(url, "minor");
        return answer.status === 429 && answer;
      });
      verdicts.push(reason);
      await untilPasses(url, "vital");
    }
    const loads = (await steady).flat();
    await world.quota.emergencyOff("emergency-off-1");
    for (const url of urls) {
      await untilPasses(url, "minor");
    }
    return { statuses: wellStatusesOf(loads), reasons: verdicts };
  });
}

/** Workers killed with -9 under load: no more is admitted than the limit, and the rest goes on. */
export function workersKilled(kind: PlaneKind): Promise<Verdict> {
  const [rate, burst, seconds] = [200, 200, 8];
  return inWorld(kind, { apps: metered(rate, burst) }, async (world) => {
    const loading = loadAll(world, "metered", 600, seconds, [0.5, 0.5]);
    for (let i = 0; i < 4; i++) {
      await pause(1_200);
      const [worker] = world.plane.instances[i % 2]!.workers();
      process.kill(worker!, "SIGKILL");
    }
    const answers = await loading;
    const passed = passedOf(answers);
    const from = Math.min(...answers.map(({ sentAt }) => sentAt));
    const elapsed = (Math.max(...passed.map(({ at }) => at)) - from) / 1000;
    // Each worker of the Node gateway and of Envoy is a node of its own: its last report interval of spending dies with it.
    const lost = kind === "nginx" ? 0 : 4 * rate * 0.2;
    expect(passed.length).toBeLessThanOrEqual(burst + rate * elapsed + lost);
    expect(passed.length).toBeGreaterThan(rate * seconds * 0.7 * wellShare(answers));
    return { statuses: wellStatusesOf(answers).filter((status) => status !== 0), reasons: [] };
  });
}

/** A whole instance killed with -9: the other goes on, and what the dead one held is back, once. */
export function instanceKilled(kind: PlaneKind): Promise<Verdict> {
  return inWorld(kind, { apps: metered(200, 200), workers: 1 }, async (world) => {
    const [first, second] = world.plane.instances as [
      World["plane"]["instances"][number],
      World["plane"]["instances"][number],
    ];
    await steadyLoad(first.url, "metered", 50, 1);
    const mark = `${kind}-0`;
    const name = (await world.quota.nodes()).find(({ node }) => node.startsWith(mark))!.node;
    await first.killAll();
    const left = await world.quota.ledger(name);
    expect(left.held).toBeGreaterThan(0);
    const answers = await steadyLoad(second.url, "metered", 50, 2);
    await waitFor("the dead node to be forgotten", async () => {
      const nodes = await world.quota.nodes();
      return nodes.length > 0 && !nodes.some(({ node }) => node === name);
    });
    expect(await world.quota.ledger(name)).toMatchObject({ closed: true, held: 0 });
    return { statuses: wellStatusesOf(answers), reasons: [] };
  });
}

/** Reloads under load: no request fails, and the limit holds through all of them. */
export function reloadsUnderLoad(kind: PlaneKind): Promise<Verdict> {
  const [rate, burst, seconds] = [300, 300, 8];
  return inWorld(kind, { apps: metered(rate, burst) }, async (world) => {
    const loading = loadAll(world, "metered", 900, seconds, [0.5, 0.5]);
    for (let i = 0; i < 4; i++) {
      await pause(1_200);
      await world.plane.instances[i % 2]!.reload();
    }
    const answers = await loading;
    const passed = passedOf(answers);
    const from = Math.min(...answers.map(({ sentAt }) => sentAt));
    const elapsed = (Math.max(...passed.map(({ at }) => at)) - from) / 1000;
    expect(passed.length).toBeLessThanOrEqual(burst + rate * elapsed);
    expect((passed.length - burst) / (rate * seconds)).toBeGreaterThanOrEqual(0.9 * wellShare(answers));
    // Old workers of nginx, and an old Envoy, close idle connections: a request that is just being sent on one may meet that.
    const failures = answers.filter(({ status }) => status === 0);
    for (const { error } of failures) expect(error).toMatch(/other side closed|ECONNRESET|EPIPE/);
    expect(failures.length).toBeLessThan(kind === "node" ? 1 : 4 * 64);
    return { statuses: wellStatusesOf(answers.filter(({ status }) => status !== 0)), reasons: [] };
  });
}

export const scenarios: [name: string, play: (kind: PlaneKind) => Promise<Verdict>][] = [
  ["skewed load on two instances", skewedLoad],
  ["a flood of requests that cannot be paid", floodOfRefused],
  ["Redis killed", (kind) => storeGone(kind, "killed")],
  ["Redis stopped", (kind) => storeGone(kind, "stopped")],
  ["Redis slow", storeSlow],
  ["an emergency", emergency],
  ["workers killed under load", workersKilled],
  ["an instance killed", instanceKilled],
  ["reloads under load", reloadsUnderLoad],
];
