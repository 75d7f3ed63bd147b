/** A process with several nodes (limiters) on one Redis, which sends itself requests at a given rate: the child of `fleet.ts`. */
import { createLimiter, type LibraryLimiter } from "../../src/limiter/library/library.js";
import type { AppOptions } from "../../src/limiter/library/library-options.js";
import { addLatency, type Latencies, newLatencies } from "./latencies.js";
import { pace } from "./pace.js";

/** One app of each node gets requests in turn or at random: a pair. */
export interface Opening {
  url: string;
  nodes: string[];
  apps: number;
  limits: AppOptions;
}

export interface Loading {
  /** Requests per second of each pair. */
  perPair: number;
  seconds: number;
}

export type Order =
  | ({ do: "open" } & Opening)
  | { do: "touch"; perSecond: number }
  | ({ do: "load" } & Loading)
  | { do: "memory" }
  | { do: "close" };

export interface Counted {
  requests: number;
  refused: number;
  /** Decided without waiting for the store. */
  local: number;
  /** Decided while the store was unavailable. */
  withoutStore: number;
  messages: number;
  /** Apps over all messages. */
  entries: number;
  latencies: Latencies;
}

/** The answers to the orders. */
export interface Told {
  open: true;
  touch: true;
  load: Counted;
  memory: { heapBytes: number };
  close: true;
}

/** Never reached. */
const CLUSTER = { capacity: 1e9, rate: 1e9 };

let limiters: LibraryLimiter[] = [];
let apps: string[] = [];
let messages = 0;
let entries = 0;

async function open({ url, nodes, apps: count, limits }: Opening): Promise<true> {
  apps = Array.from({ length: count }, (_, i) => `app-${i}`);
  const configured = Object.fromEntries(apps.map((id) => [id, limits]));
  const observer = {
    synced(_outcome: string, _ms: number, inMessage: number) {
      messages++;
      entries += inMessage;
    },
  };
  limiters = await Promise.all(
    nodes.map((node) => createLimiter({ store: url, node, apps: configured, cluster: CLUSTER, observer })),
  );
  return true;
}

/** One request per pair, in random order. */
async function touch(perSecond: number): Promise<true> {
  const pairs = shuffled(limiters.flatMap((limiter) => apps.map((app) => ({ limiter, app }))));
  const pending: unknown[] = [];
  let next = 0;
  await pace({ perSecond, seconds: Number.POSITIVE_INFINITY, most: pairs.length }, () => {
    const { limiter, app } = pairs[next++]!;
    pending.push(limiter.take(app, 1));
  });
  await Promise.all(pending);
  return true;
}

function shuffled<T>(items: T[]): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const other = Math.floor(Math.random() * (i + 1));
    [items[i], items[other]] = [items[other]!, items[i]!];
  }
  return items;
}

/** Requests to pairs at random, so that their leases do not run out at the same time. */
async function load({ perPair, seconds }: Loading): Promise<Counted> {
  const latencies = newLatencies();
  const pending = new Set<Promise<unknown>>();
  const before = totals();
  const pick = <T>(items: T[]) => items[Math.floor(Math.random() * items.length)]!;
  const perSecond = perPair * limiters.length * apps.length;
  const requests = await pace({ perSecond, seconds }, () => {
    const limiter = pick(limiters);
    const app = pick(apps);
    const startedMs = performance.now();
    const made = limiter.take(app, 1);
    if (!(made instanceof Promise)) return addLatency(latencies, performance.now() - startedMs);
    const one: Promise<void> = made.then(() => {
      addLatency(latencies, performance.now() - startedMs);
      pending.delete(one);
    });
    pending.add(one);
  });
  await Promise.all(pending);
  const after = totals();
  const grown = (of: keyof typeof before) => after[of] - before[of];
  return {
    requests,
    latencies,
    refused: grown("refused"),
    local: grown("local"),
    withoutStore: grown("withoutStore"),
    messages: grown("messages"),
    entries: grown("entries"),
  };
}

function totals() {
  const sum = { messages, entries, refused: 0, local: 0, withoutStore: 0 };
  for (const limiter of limiters) {
    const { local, cached, refused, withoutStore } = limiter.stats();
    sum.local += local + cached;
    sum.refused += refused;
    sum.withoutStore += withoutStore;
  }
  return sum;
}

async function close(): Promise<true> {
  await Promise.all(limiters.map((limiter) => limiter.close()));
  return true;
}

function memory(): Told["memory"] {
  globalThis.gc?.();
  return { heapBytes: process.memoryUsage().heapUsed };
}

async function answer(order: Order): Promise<Told[Order["do"]]> {
  switch (order.do) {
    case "open":
      return open(order);
    case "touch":
      return touch(order.perSecond);
    case "load":
      return load(order);
    case "memory":
      return memory();
    case "close":
      return close();
  }
}

process.on("message", async (order: Order) => process.send!(await answer(order)));
process.send!("ready");
