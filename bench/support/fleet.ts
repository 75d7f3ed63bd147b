/** Many nodes on one real Redis, in up to two processes, and what a request costs them. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { AppOptions } from "../../src/limiter/library/library-options.js";
import { startRedis } from "../../test/support/redis-server.js";
import { pause } from "../../test/support/wait-for.js";
import { cpuNs } from "./cpu-time.js";
import type { Order, Told } from "./fleet-side.js";
import { meanMs, percentileMs, sumLatencies } from "./latencies.js";

/** More requests per second are made by two processes. */
const PER_PROCESS = 5_000;
/** First requests of pairs per second: a cold start of all pairs at once would overload Redis. */
const TOUCHES_PER_SECOND = 10_000;
const IDLE_SECONDS = 2;

export interface Point {
  nodes: number;
  apps: number;
  /** Requests per second of each pair (an app on a node). */
  perPair: number;
  limits: AppOptions;
  /** After one request per pair, load for this long before anything is counted. */
  warmUpSeconds: number;
  seconds: number;
}

/** What a point costs. All values per request are those of the counted time. */
export interface Measured {
  requests: number;
  /** Share of the planned requests that were sent and decided with the store. Below 1: overloaded. */
  carried: number;
  refused: number;
  entriesPerRequest: number;
  messagesPerRequest: number;
  /** CPU of Redis above that of an empty server: syncs, and what nodes send without requests. */
  redisUsPerRequest: number;
  /** CPU of Redis per node and second while there are no requests, likewise. */
  idleUsPerNode: number;
  localRatio: number;
  meanMs: number;
  p99Ms: number;
}

export interface Side {
  tell<K extends Order["do"]>(order: Extract<Order, { do: K }>): Promise<Told[K]>;
  end(): void;
}

export async function startSide(): Promise<Side> {
  const script = new URL("fleet-side.ts", import.meta.url).pathname;
  const child: ChildProcess = fork(script, { execArgv: ["--import", "tsx", "--expose-gc"] });
  const ended = once(child, "exit").then(() => Promise.reject(new Error("a process with nodes has ended")));
  const nextMessage = async () => (await Promise.race([once(child, "message"), ended]))[0];
  await nextMessage();
  return {
    async tell(order) {
      child.send(order);
      return nextMessage();
    },
    end: () => void child.kill("SIGKILL"),
  };
}

interface Running {
  sides: Side[];
  /** CPU of Redis so far, less that of an empty server, in microseconds. */
  redisUs(): number;
}

/** Starts Redis and the nodes, and stops them after `work`. */
async function withNodes<T>(
  { nodes, apps, limits, perPair }: Omit<Point, "warmUpSeconds" | "seconds">,
  work: (running: Running) => Promise<T>,
): Promise<T> {
  const server = await startRedis();
  const sides: Side[] = [];
  try {
    const redisUs = await cpuAboveEmpty(server.pid);
    const names = Array.from({ length: nodes }, (_, i) => `node-${i}`);
    const processes = nodes * apps * perPair > PER_PROCESS ? Math.min(nodes, 2) : 1;
    for (let at = 0; at < processes; at++) {
      const side = await startSide();
      sides.push(side);
      const own = names.filter((_, i) => i % processes === at);
      await side.tell({ do: "open", url: server.url, nodes: own, apps, limits });
    }
    const done = await work({ sides, redisUs });
    await Promise.all(sides.map((side) => side.tell({ do: "close" })));
    return done;
  } finally {
    for (const side of sides) side.end();
    await server.stop();
  }
}

/** The CPU time of a server that is empty now, less what it would have used as an empty server, in microseconds. */
async function cpuAboveEmpty(pid: number): Promise<() => number> {
  const cpuUs = () => cpuNs([pid]) / 1_000;
  const [cpuFrom, from] = [cpuUs(), performance.now()];
  await pause(IDLE_SECONDS * 1_000);
  const usPerMs = (cpuUs() - cpuFrom) / (performance.now() - from);
  return () => cpuUs() - usPerMs * (performance.now() - from);
}

const touchAll = (sides: Side[]) =>
  Promise.all(sides.map((side) => side.tell({ do: "touch", perSecond: TOUCHES_PER_SECOND / sides.length })));

export function measurePoint(point: Point): Promise<Measured> {
  const { nodes, apps, perPair, seconds } = point;
  return withNodes(point, async ({ sides, redisUs }) => {
    const load = (for_: number) => Promise.all(sides.map((side) => side.tell({ do: "load", perPair, seconds: for_ })));
    // Connecting and loading the functions is over.
    await pause(500);
    const idleFrom = redisUs();
    await pause(IDLE_SECONDS * 1_000);
    const idleUs = (redisUs() - idleFrom) / IDLE_SECONDS;
    await touchAll(sides);
    await load(point.warmUpSeconds);
    const cpuFrom = redisUs();
    const counted = await load(seconds);
    const cpuUs = redisUs() - cpuFrom;
    const sum = (of: "requests" | "refused" | "local" | "withoutStore" | "messages" | "entries") =>
      counted.reduce((total, one) => total + one[of], 0);
    const requests = sum("requests");
    const latencies = sumLatencies(counted.map((one) => one.latencies));
    return {
      requests,
      carried: (requests - sum("withoutStore")) / (nodes * apps * perPair * seconds),
      refused: sum("refused"),
      entriesPerRequest: sum("entries") / requests,
      messagesPerRequest: sum("messages") / requests,
      redisUsPerRequest: cpuUs / requests,
      idleUsPerNode: idleUs / nodes,
      localRatio: sum("local") / requests,
      meanMs: meanMs(latencies),
      p99Ms: percentileMs(latencies, 0.99),
    };
  });
}

/** Heap of one node after one request to each of its apps, in bytes. */
export function heapWith(apps: number, limits: AppOptions): Promise<number> {
  return withNodes({ nodes: 1, apps, perPair: 0, limits }, async ({ sides }) => {
    await touchAll(sides);
    // Syncs and reports about the first requests are over.
    await pause(1_000);
    return (await sides[0]!.tell({ do: "memory" })).heapBytes;
  });
}
