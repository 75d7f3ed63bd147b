/** Scenarios about request limits that every plane must pass. Each returns what clients saw, to compare the planes. */
import { request } from "undici";
import { expect } from "vitest";
import {
  type Answered,
  type HttpLoad,
  loadUntilPassed,
  passedOf,
  sendLoad,
  startHttpLoad,
} from "../support/http-load.js";
import type { PlaneKind } from "../support/planes.js";
import { pause, waitFor } from "../support/wait-for.js";
import { BY_REQUEST, type Fixture, type FixtureOptions, startFixture } from "./fixture.js";

/** What clients saw, without times: must be the same on all planes. */
export interface Verdict {
  statuses: number[];
  reasons: string[];
}

/** A connection that a killed process had accepted, but not read from, may never be answered. */
export const REQUEST_TIMEOUT_MS = 10_000;

/** An app that is never admitted without the store, so that admitted requests can be counted. */
export const metered = (rate: number, burst: number) =>
  `metered: { guaranteed: ${rate}, burst: ${burst}, on_store_failure: closed, ${BY_REQUEST} }`;

const statusesOf = (answers: Answered[]) => [...new Set(answers.map(({ status }) => status))].sort();

/**
 * The statuses while the store works. On a busy machine the store can seem slow for a while; then 503 is correct for
 * apps that are never admitted without it.
 */
export const statusesWithStore = (answers: Answered[]) => statusesOf(answers).filter((status) => status !== 503);

/** Seconds from the first request to the last response that was admitted. */
function secondsOf(answers: Answered[]): number {
  const first = Math.min(...answers.map(({ sentAt }) => sentAt));
  return (Math.max(...passedOf(answers).map(({ at }) => at)) - first) / 1000;
}

export async function withFixture<T>(
  kind: PlaneKind,
  options: FixtureOptions,
  play: (fixture: Fixture) => Promise<T>,
): Promise<T> {
  const fixture = await startFixture(kind, options);
  try {
    return await play(fixture);
  } catch (error) {
    const logs = fixture.plane.instances.map((instance) => instance.log().slice(-2_000)).join("\n");
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${logs}`, { cause: error });
  } finally {
    await fixture.stop();
  }
}

/** Sends one request. */
export async function send(url: string, app: string): Promise<{ status: number; reason: string }> {
  const { statusCode, body } = await request(url, { headers: { "x-app-id": app } });
  const text = await body.text();
  return { status: statusCode, reason: statusCode === 200 ? "" : (JSON.parse(text) as { reason: string }).reason };
}

/** On a busy machine the store can seem slow at first. */
async function untilPasses(url: string, app: string): Promise<void> {
  await waitFor(`${app} to pass`, async () => (await send(url, app)).status === 200);
}

/** Sends many requests at a time until one is refused with this status, and returns the reason. */
async function refusalOf(url: string, app: string, wanted: number): Promise<string> {
  return waitFor("a refusal", async () => {
    const answers = await Promise.all(Array.from({ length: 100 }, () => send(url, app)));
    return answers.find(({ status }) => status === wanted)?.reason;
  });
}

const steadyLoad = (url: string, app: string, perSecond: number, seconds: number) =>
  sendLoad(url, app, perSecond, seconds, REQUEST_TIMEOUT_MS);

/** A load on every instance; `shares` divides it. */
async function loadAll(fixture: Fixture, app: string, perSecond: number, seconds: number, shares: number[]) {
  const { instances } = fixture.plane;
  const loads = instances.map(({ url }, i) => steadyLoad(url, app, perSecond * (shares[i] ?? 0), seconds));
  return (await Promise.all(loads)).flat();
}

/**
 * Disturbs the instances in turn, four times, under load. Before each disturbance, and after the last one, every instance
 * must admit requests: so those that are not disturbed continue, and the others come back.
 */
async function disturbUnderLoad(
  fixture: Fixture,
  perSecond: number,
  disturb: (instance: number) => Promise<unknown>,
): Promise<Answered[]> {
  const { instances } = fixture.plane;
  const loads = instances.map(({ url }) =>
    startHttpLoad(url, "metered", perSecond / instances.length, REQUEST_TIMEOUT_MS),
  );
  const passed = (load: HttpLoad) => passedOf(load.answers).length;
  try {
    for (let i = 0; i <= 4; i++) {
      const before = loads.map(passed);
      await waitFor(`50 requests to pass on every instance after ${i} disturbances`, () =>
        loads.every((load, k) => passed(load) >= before[k]! + 50),
      );
      if (i < 4) await disturb(i % instances.length);
    }
    const refused = () => loads.some(({ answers }) => answers.some(({ status }) => status === 429));
    await waitFor("the limit to be reached", refused);
  } finally {
    await Promise.all(loads.map((load) => load.stop()));
  }
  return loads.flatMap(({ answers }) => answers);
}

/** Two instances with four workers, load 90 to 10: together at most burst + rate × time, and the refill is used. */
export function skewedLoad(kind: PlaneKind): Promise<Verdict> {
  // Little enough that a busy machine can send more than the limit.
  const [rate, burst] = [50, 50];
  return withFixture(kind, { apps: metered(rate, burst) }, async (fixture) => {
    const targets = fixture.plane.instances.map(({ url }, i) => ({ url, perSecond: 4 * rate * [0.9, 0.1][i]! }));
    const answers = await loadUntilPassed(targets, "metered", burst + 8 * rate, REQUEST_TIMEOUT_MS);
    expect(passedOf(answers).length).toBeLessThanOrEqual(burst + rate * secondsOf(answers));
    const reason = await refusalOf(fixture.plane.instances[0]!.url, "metered", 429);
    return { statuses: statusesWithStore(answers), reasons: [reason] };
  });
}

/** A flood of requests without tokens adds almost no store calls: refusals are cached. */
export function floodOfRefused(kind: PlaneKind): Promise<Verdict> {
  const apps = `scarce: { guaranteed: 1, burst: 5, on_store_failure: closed, ${BY_REQUEST} }`;
  return withFixture(kind, { apps }, async (fixture) => {
    // Until no node holds tokens: leased tokens come on top of what the bucket may hold.
    // Then no more pass than the bucket gains meanwhile, which is more on a busy machine.
    const onlyTheRefillPasses = async () => {
      const from = performance.now();
      const passed = passedOf(await loadAll(fixture, "scarce", 100, 1, [0.5, 0.5])).length;
      return passed <= 1 + (performance.now() - from) / 1000;
    };
    await waitFor("all tokens to be spent", onlyTheRefillPasses);
    await fixture.store.calls();
    const startedAt = performance.now();
    const answers = await loadAll(fixture, "scarce", 1000, 4, [0.5, 0.5]);
    const calls = await fixture.store.calls();
    const elapsed = (performance.now() - startedAt) / 1000;
    // Reports of the nodes, polls of nginx and Envoy for recalls in every sync interval of 100 ms, and the checks of the services
    // for an emergency: by the clock, not by requests.
    const { shards } = fixture.store;
    const perInstance = 2 * 1.5 + (kind === "node" ? 0 : 10);
    const ofNodes = fixture.plane.instances.length * perInstance * elapsed + 4 * 3 * elapsed;
    // One service checks all shards four times per second, and divides L1 among them twice.
    const background = ofNodes + (shards > 1 ? (6 * shards + 10) * elapsed : 0);
    expect((calls - background) / answers.length).toBeLessThanOrEqual(0.01);
    expect(passedOf(answers).length).toBeLessThanOrEqual(5 + elapsed + 1);
    const reason = await refusalOf(fixture.plane.instances[0]!.url, "scarce", 429);
    return { statuses: statusesWithStore(answers), reasons: [reason] };
  });
}

const POLICIES = [
  `open: { guaranteed: 5000, burst: 5000, on_store_failure: open, ${BY_REQUEST} }`,
  `capped: { guaranteed: 5000, burst: 5000, on_store_failure: open, fail_open_tokens: 20, ${BY_REQUEST} }`,
  `local: { guaranteed: 40, burst: 40, on_store_failure: local, ${BY_REQUEST} }`,
  `closed: { guaranteed: 1000, burst: 1000, on_store_failure: closed, ${BY_REQUEST} }`,
].join(", ");

/** Without the store each app's policy applies, a failure is never a 429, and requests pass again when it is back. */
export function storeGone(kind: PlaneKind, how: "killed" | "stopped"): Promise<Verdict> {
  const yaml = "lease: { timeout_ms: 500 }\n";
  return withFixture(kind, { apps: POLICIES, yaml, instances: 1, workers: 2 }, async (fixture) => {
    const { url } = fixture.plane.instances[0]!;
    for (const app of ["open", "capped", "local", "closed"]) await untilPasses(url, app);
    if (how === "killed") await fixture.store.kill();
    else fixture.store.pause();
    const noticed = async () => (await send(url, "closed")).status === 503;
    await waitFor("the failure to be noticed", noticed);
    const reasons: string[] = [];
    const statuses = new Set<number>();
    for (const app of ["capped", "closed"]) {
      const answers = await steadyLoad(url, app, 300, 2);
      // Status 0 would mean that no decision was made in time.
      for (const { status } of answers) statuses.add(status);
      reasons.push(`${app} ${await refusalOf(url, app, 503)}`);
    }
    expect([...statuses].filter((status) => status === 0 || status === 429)).toEqual([]);
    // An app that stays within its rate notices nothing, also when the store is back.
    const open = steadyLoad(url, "open", 300, 4);
    await pause(1_500);
    if (how === "killed") await fixture.store.restart();
    else fixture.store.resume();
    await untilPasses(url, "closed");
    expect((await open).filter(({ status }) => status !== 200)).toEqual([]);
    return { statuses: [...statuses].sort(), reasons };
  });
}

/** With a store that answers 300 ms late, no request waits beyond the timeout and none gets a 429. */
export function storeSlow(kind: PlaneKind): Promise<Verdict> {
  const apps = `ample: { guaranteed: 5000, burst: 5000, ${BY_REQUEST} }`;
  return withFixture(kind, { apps }, async (fixture) => {
    await loadAll(fixture, "ample", 100, 1, [0.5, 0.5]);
    fixture.store.setDelay(300);
    const answers = await loadAll(fixture, "ample", 300, 4, [0.5, 0.5]);
    expect(answers.filter(({ status }) => status === 0 || status === 429)).toEqual([]);
    fixture.store.setDelay(0);
    await untilPasses(fixture.plane.instances[0]!.url, "ample");
    return { statuses: statusesOf(passedOf(answers)), reasons: [] };
  });
}

/** An emergency reaches every instance, blocks low priorities, keeps the highest, and ends. */
export function emergency(kind: PlaneKind): Promise<Verdict> {
  const apps = [
    `vital: { guaranteed: 1000, burst: 1000, priority: 0, ${BY_REQUEST} }`,
    `minor: { guaranteed: 1000, burst: 1000, priority: 3, ${BY_REQUEST} }`,
  ].join(", ");
  return withFixture(kind, { apps }, async ({ plane, quota }) => {
    const urls = plane.instances.map(({ url }) => url);
    for (const url of urls) for (const app of ["vital", "minor"]) await untilPasses(url, app);
    // Nothing is killed here, so every request is answered, however late on a busy machine.
    const loadOf = (app: string) => urls.map((url) => startHttpLoad(url, app, 50));
    const [vital, minor] = [loadOf("vital"), loadOf("minor")];
    await pause(500);
    // Longer than this test waits: a refusal must not outlive the emergency.
    await quota.emergencyOn(600_000, "a test", "the test", "emergency-on-1");
    const isBlocked = ({ answers }: HttpLoad) => answers.some(({ status }) => status === 429);
    await waitFor("the emergency under load", () => minor.every(isBlocked));
    const reasons: string[] = [];
    for (const url of urls) {
      const { reason } = await waitFor("the emergency", async () => {
        const answer = await send(url, "minor");
        return answer.status === 429 && answer;
      });
      reasons.push(reason);
      await untilPasses(url, "vital");
    }
    const answers = (await Promise.all([...vital, ...minor].map((load) => load.stop()))).flat();
    expect([...new Set(answers.map(({ error }) => error))]).toEqual([""]);
    await quota.emergencyOff("emergency-off-1");
    for (const url of urls) await untilPasses(url, "minor");
    return { statuses: statusesWithStore(answers), reasons };
  });
}

/** Workers killed with SIGKILL under load: the limit holds, the others continue, and the killed ones are replaced. */
export function workersKilled(kind: PlaneKind): Promise<Verdict> {
  const [rate, burst] = [100, 100];
  return withFixture(kind, { apps: metered(rate, burst) }, async (fixture) => {
    let lost = 0;
    const answers = await disturbUnderLoad(fixture, 300, async (instance) => {
      process.kill(fixture.plane.instances[instance]!.workers()[0]!, "SIGKILL");
      // Each worker of the Node gateway is a node of its own, and so is an Envoy, whose workers are threads. What it spent
      // and did not report is lost with it: at most what it held according to the store. Workers of nginx share their counters.
      if (kind !== "nginx") lost += await fixture.heldBy(instance);
    });
    expect(passedOf(answers).length).toBeLessThanOrEqual(burst + rate * secondsOf(answers) + lost);
    return { statuses: statusesWithStore(answers).filter((status) => status !== 0), reasons: [] };
  });
}

/** A whole instance killed with SIGKILL: the other continues, and the tokens of the dead one are returned once. */
export function instanceKilled(kind: PlaneKind): Promise<Verdict> {
  return withFixture(kind, { apps: metered(200, 200), workers: 1 }, async ({ plane, quota }) => {
    const [first, second] = plane.instances;
    // Long enough to hold a lease.
    await steadyLoad(first!.url, "metered", 50, 3);
    const name = (await quota.nodes()).find(({ node }) => node.startsWith(`${kind}-0`))!.node;
    await first!.killAll();
    expect((await quota.ledger(name)).held).toBeGreaterThan(0);
    const answers = await steadyLoad(second!.url, "metered", 50, 2);
    await waitFor("the dead node to be removed", async () => {
      const nodes = await quota.nodes();
      return nodes.length > 0 && !nodes.some(({ node }) => node === name);
    });
    expect(await quota.ledger(name)).toMatchObject({ closed: true, held: 0 });
    return { statuses: statusesWithStore(answers), reasons: [] };
  });
}

/** Reloads under load: no request fails, and the limit holds all the time. */
export function reloadsUnderLoad(kind: PlaneKind): Promise<Verdict> {
  const [rate, burst] = [100, 100];
  return withFixture(kind, { apps: metered(rate, burst) }, async (fixture) => {
    const answers = await disturbUnderLoad(fixture, 300, (instance) => fixture.plane.instances[instance]!.reload());
    expect(passedOf(answers).length).toBeLessThanOrEqual(burst + rate * secondsOf(answers));
    // Old workers of nginx, and an old Envoy, close idle connections. A request that is sent at that moment can fail.
    const failures = answers.filter(({ status }) => status === 0);
    for (const { error } of failures) expect(error).toMatch(/other side closed|ECONNRESET|EPIPE/);
    expect(failures.length).toBeLessThan(kind === "node" ? 1 : 4 * 64);
    return { statuses: statusesWithStore(answers.filter(({ status }) => status !== 0)), reasons: [] };
  });
}

export const scenarios: [name: string, play: (kind: PlaneKind) => Promise<Verdict>][] = [
  ["skewed load on two instances", skewedLoad],
  ["a flood of requests without tokens", floodOfRefused],
  ["Redis killed", (kind) => storeGone(kind, "killed")],
  ["Redis stopped", (kind) => storeGone(kind, "stopped")],
  ["Redis slow", storeSlow],
  ["an emergency", emergency],
  ["workers killed under load", workersKilled],
  ["an instance killed", instanceKilled],
  ["reloads under load", reloadsUnderLoad],
];
