/** Three library instances on one Redis: the worst window of a steady load followed by a flood, and utilisation. */
import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { createLimiter } from "../../src/index.js";
import { startRedis } from "../../test/support/redis-server.js";
import { pace } from "../support/pace.js";
import { type Admission, type Limit, worstWindow } from "./worst-window.js";

const NODES = 3;
/** Load relative to the rate. A steady load leaves the bucket full and leases in use. */
export const STEADY = { load: 0.8, seconds: 6 };
const FLOOD = { load: 5, seconds: 2 };
const CYCLES = 2;

/** Resolves with whether the request was admitted. */
type Decide = (node: number) => boolean | Promise<boolean>;

interface Nodes {
  decide: Decide;
  close(): Promise<void>;
}

async function ours(url: string, { rate, burst }: Limit): Promise<Nodes> {
  const apps = { app: { guaranteed: rate, burst } };
  const names = Array.from({ length: NODES }, (_, i) => `node-${i}`);
  const limiters = await Promise.all(names.map((node) => createLimiter({ store: url, node, apps })));
  return {
    decide(node) {
      const made = limiters[node]!.take("app", 1);
      return made instanceof Promise ? made.then(({ allowed }) => allowed) : made.allowed;
    },
    async close() {
      await Promise.all(limiters.map((limiter) => limiter.close()));
    },
  };
}

/** It has no burst: `burst` requests per window of burst ÷ rate seconds. */
async function flexible(url: string, { rate, burst }: Limit): Promise<Nodes> {
  const clients = Array.from({ length: NODES }, () => new Redis(url));
  const limiters = clients.map(
    (storeClient) => new RateLimiterRedis({ storeClient, points: burst, duration: burst / rate }),
  );
  return {
    decide: (node) =>
      limiters[node]!.consume("app").then(
        () => true,
        (refused: unknown) => {
          if (refused instanceof Error) throw refused;
          return false;
        },
      ),
    async close() {
      for (const client of clients) client.disconnect();
    },
  };
}

/** Records the time of each admission. */
function recorder({ decide }: Nodes) {
  const admitted: number[] = [];
  const pending = new Set<Promise<void>>();
  return {
    admitted,
    send(node: number): void {
      const made = decide(node);
      if (!(made instanceof Promise)) {
        if (made) admitted.push(performance.now());
        return;
      }
      const one: Promise<void> = made.then((allowed) => {
        if (allowed) admitted.push(performance.now());
        pending.delete(one);
      });
      pending.add(one);
    },
    async settled(): Promise<void> {
      await Promise.all(pending);
    },
  };
}

async function withNodes<T>(start: typeof ours, limit: Limit, work: (nodes: Nodes) => Promise<T>): Promise<T> {
  const server = await startRedis();
  try {
    const nodes = await start(server.url, limit);
    try {
      return await work(nodes);
    } finally {
      await nodes.close();
    }
  } finally {
    await server.stop();
  }
}

function windowOf(start: typeof ours, limit: Limit): Promise<number> {
  return withNodes(start, limit, async (nodes) => {
    const { admitted, send, settled } = recorder(nodes);
    let next = 0;
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      for (const { load, seconds } of [STEADY, FLOOD]) {
        await pace({ perSecond: limit.rate * load, seconds }, () => send(next++ % NODES));
      }
    }
    await settled();
    return worstWindow(
      admitted.map((at): Admission => ({ from: at, to: at })),
      limit,
    );
  });
}

export const ownWindow = (limit: Limit) => windowOf(ours, limit);
export const flexibleWindow = (limit: Limit) => windowOf(flexible, limit);

const SHARES = [0.8, 0.15, 0.05];
const OVERLOAD = 3;
/** The burst is used up after this time. */
const USED_UP_SECONDS = 3;

/** Admitted ÷ (rate × time) at three times the rate, with most of the load on one node. */
export function utilisation(limit: Limit, seconds: number): Promise<number> {
  return withNodes(ours, limit, async (nodes) => {
    const { admitted, send, settled } = recorder(nodes);
    const from = performance.now() + USED_UP_SECONDS * 1000;
    const to = from + seconds * 1000;
    await Promise.all(
      SHARES.map((share, node) =>
        pace({ perSecond: limit.rate * OVERLOAD * share, seconds: USED_UP_SECONDS + seconds }, () => send(node)),
      ),
    );
    await settled();
    return admitted.filter((at) => at >= from && at < to).length / (limit.rate * seconds);
  });
}
