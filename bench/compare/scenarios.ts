/** The scenarios of the comparison. Each returns numbers that do not depend on the speed of the machine, as far as that is possible. */
import { WebSocket } from "ws";
import type { RedisServer } from "../../test/support/redis-server.js";
import { pause } from "../../test/support/wait-for.js";
import { worstWindow } from "../leases/worst-window.js";
import { median } from "../rounds.js";
import { load as wrk } from "../support/wrk.js";
import { load, type Outcome, spread } from "./load.js";
import { type Connections, LIMIT, MOST_CONNECTIONS, NODES, type System, USER_RATE } from "./system.js";

const admittedOf = (outcomes: Outcome[]) => outcomes.filter(({ status }) => status === 200);

/** A steady load at 80 % of the rate, then a flood of three times the rate, twice. */
export async function windows({ urls, redis }: System): Promise<{ worst: number; storeCalls: number | undefined }> {
  const all: Outcome[] = [];
  let calls = 0;
  let steady = 0;
  for (let cycle = 0; cycle < 2; cycle++) {
    const before = await commandsOf(redis);
    const calm = (await load(spread(urls, LIMIT.rate * 0.8), 4)).flat();
    calls += (await commandsOf(redis)) - before;
    steady += calm.length;
    all.push(...calm, ...(await load(spread(urls, LIMIT.rate * 3), 2)).flat());
  }
  const admitted = admittedOf(all).map(({ sentAt, at }) => ({ from: sentAt, to: at }));
  return { worst: worstWindow(admitted, LIMIT), storeCalls: redis === undefined ? undefined : calls / steady };
}

/** Commands that clients sent, without those that scripts ran and without this one. */
async function commandsOf(redis: RedisServer | undefined): Promise<number> {
  if (redis === undefined) return 0;
  const stats = String(await redis.command("INFO", "commandstats"));
  const ignored = /^(info|ping|hello|client|auth|select|subscribe|ssubscribe|function|command|script)/;
  const counts = [...stats.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].filter(([, name]) => !ignored.test(name!));
  const own = counts.filter(([, name]) => ["fcall", "eval", "evalsha", "fcall_ro"].includes(name!));
  // What a script calls is counted as well; systems with scripts send little else.
  return (own.length > 0 ? own : counts).reduce((sum, [, , count]) => sum + Number(count), 0);
}

const SKEW = [0.8, 0.15, 0.05];

/** Admitted ÷ (rate × time) at three times the rate with most of it on one node, after the burst is used up. */
export async function utilisation({ urls }: System): Promise<number> {
  const [seconds, before] = [6, 2];
  const outcomes = (await load(spread(urls, LIMIT.rate * 3, SKEW), seconds + before)).flat();
  const from = Math.min(...outcomes.map(({ sentAt }) => sentAt)) + before * 1000;
  const admitted = admittedOf(outcomes).filter(({ sentAt }) => sentAt >= from);
  return admitted.length / (LIMIT.rate * seconds);
}

/** Requests/s with the limiter ÷ without, and CPU per request likewise, on one node, with a limit that is not reached. */
export async function cost(system: System): Promise<{ throughput: number; cpu: number }> {
  const { urls, busyUrl = urls[0]!, bareUrl, nodeNs, bareNs } = system;
  const headers = { "X-App-Id": "busy" };
  const rounds: { throughput: number; cpu: number }[] = [];
  const measure = async (url: string, ns: () => number) => {
    const before = ns();
    const { requests, perSecond } = await wrk({ url, seconds: 2, connections: 32, headers });
    return { perSecond, cpu: (ns() - before) / requests };
  };
  for (let round = 0; round <= 3; round++) {
    const limited = await measure(busyUrl, nodeNs);
    const bare = await measure(bareUrl, bareNs);
    // The first round warms up.
    if (round > 0) rounds.push({ throughput: limited.perSecond / bare.perSecond, cpu: limited.cpu / bare.cpu });
  }
  return { throughput: median(rounds.map((round) => round.throughput)), cpu: median(rounds.map((round) => round.cpu)) };
}

export interface Outage {
  /** Admitted ÷ (rate × time) while the store is dead, at twice the rate. */
  admitted: number;
  /** Of all requests meanwhile: 5xx, or no response within two seconds. */
  failed: number;
  /** From the start of the store until the limit holds again: no failures, and at most 1.3 × the rate. */
  recoverySeconds: number;
}

const DEAD = { from: 2, to: 6, end: 14 };

export async function outage({ urls, redis }: System): Promise<Outage | undefined> {
  if (redis === undefined) return undefined;
  const loading = load(spread(urls, LIMIT.rate * 2), DEAD.end);
  const start = performance.now();
  await pause(DEAD.from * 1000);
  await redis.kill();
  const killedAt = performance.now();
  await pause(Math.max(DEAD.to * 1000 - (killedAt - start), 0));
  const dead = { from: killedAt, to: performance.now() };
  await redis.restart();
  const outcomes = (await loading).flat();
  const isFailed = ({ status }: Outcome) => status === 0 || status >= 500;
  // The first half second is left out: nodes still have what they were granted.
  const during = outcomes.filter(({ sentAt }) => sentAt >= dead.from + 500 && sentAt < dead.to);
  return {
    admitted: admittedOf(during).length / ((LIMIT.rate * (dead.to - dead.from - 500)) / 1000),
    failed: during.filter(isFailed).length / during.length,
    recoverySeconds: secondsUntilNormal(outcomes, dead.to, isFailed),
  };
}

/** A fixed window admits everything at its start: shorter bins would never be normal. */
const BIN_MS = 1_000;

function secondsUntilNormal(outcomes: Outcome[], from: number, isFailed: (one: Outcome) => boolean): number {
  const last = Math.max(...outcomes.map(({ sentAt }) => sentAt));
  let normalSince = from;
  for (let bin = from; bin + BIN_MS <= last; bin += BIN_MS) {
    const inBin = outcomes.filter(({ sentAt }) => sentAt >= bin && sentAt < bin + BIN_MS);
    const admitted = admittedOf(inBin).length;
    const most = (LIMIT.rate * 1.3 * BIN_MS) / 1000;
    // A full bucket may be spent at once; afterwards it is the rate that counts.
    const isNormal = !inBin.some(isFailed) && (admitted <= most || bin === from) && admitted > 0;
    if (!isNormal) normalSince = bin + BIN_MS;
  }
  return (normalSince - from) / 1000;
}

/**
 * One user sends four times the rate of the app and is refused by the limit per user; ten others stay within their limits and need 40 % of
 * the rate of the app. The share of their requests that is admitted: below 1, refused requests have used the quota of the app.
 */
export async function calmUsers({ urls }: System): Promise<number> {
  const calm = Array.from({ length: 10 }, (_, i) => `calm-${i}`);
  const parts = urls.flatMap((url) => [
    { url, headers: { "x-app-id": "app", "x-user-id": "loud" }, perSecond: (LIMIT.rate * 4) / NODES },
    ...calm.map((user) => ({
      url,
      headers: { "x-app-id": "app", "x-user-id": user },
      perSecond: (USER_RATE * 0.4) / NODES,
    })),
  ]);
  const results = await load(parts, 5);
  const outcomes = results.filter((_, i) => parts[i]!.headers["x-user-id"] !== "loud").flat();
  const from = Math.min(...outcomes.map(({ sentAt }) => sentAt)) + 1_000;
  const counted = outcomes.filter(({ sentAt }) => sentAt >= from);
  return admittedOf(counted).length / counted.length;
}

export interface Slots {
  /** Open connections when many clients try at all nodes ÷ the limit. */
  open: number;
  /** The same when all clients use one node. */
  openOnOne: number;
  /** Seconds until the slots of a killed proxy can be used again; undefined: not within 40 s. */
  freedSeconds: number | undefined;
}

export async function slots(start: () => Promise<Connections>): Promise<Slots> {
  const first = await start();
  let open: number;
  try {
    const sockets = await connectAll(first.urls, 30);
    open = sockets.length / MOST_CONNECTIONS;
    for (const socket of sockets) socket.terminate();
  } finally {
    await first.stop();
  }
  const system = await start();
  try {
    const sockets = await connectAll([system.urls[0]!], 30);
    const openOnOne = sockets.length / MOST_CONNECTIONS;
    await system.killFirst();
    const killedAt = performance.now();
    // The other nodes get the slots that the first one had, within what they may have at all.
    const wanted = Math.min(sockets.length, MOST_CONNECTIONS);
    const others = system.urls.slice(1);
    const got: WebSocket[] = [];
    let freedSeconds: number | undefined;
    while (freedSeconds === undefined && performance.now() - killedAt < 40_000) {
      got.push(...(await connectAll(others, wanted - got.length)));
      if (got.length >= wanted) freedSeconds = (performance.now() - killedAt) / 1000;
      else await pause(250);
    }
    for (const socket of [...sockets, ...got]) socket.terminate();
    return { open, openOnOne, freedSeconds };
  } finally {
    await system.stop();
  }
}

/** The connections that were opened of `attempts` at the same time, by turns through the URLs. */
async function connectAll(urls: string[], attempts: number): Promise<WebSocket[]> {
  const tries = Array.from({ length: attempts }, (_, i) => {
    const socket = new WebSocket(`${urls[i % urls.length]}/`, { handshakeTimeout: 5_000 });
    return new Promise<WebSocket[]>((resolve) => {
      socket.once("open", () => resolve([socket]));
      socket.once("error", () => resolve([]));
    });
  });
  return (await Promise.all(tries)).flat();
}
