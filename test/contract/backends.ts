/** The store backends of the contract tests. Each starts empty and uses a clock that the test sets. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  type DrivenStore,
  drivenEmbeddedStore,
  drivenRedisStore,
  type RecordedCall,
  START,
} from "../support/driven-store.js";
import { startRedisCluster } from "../support/redis-cluster.js";
import { startRedis } from "../support/redis-server.js";

interface Backend {
  name: string;
  start(): Promise<{ open(): DrivenStore; stop(): Promise<void> }>;
}

const backends: Backend[] = [
  { name: "embedded", start: async () => ({ open: () => drivenEmbeddedStore(), stop: async () => {} }) },
  {
    name: "redis",
    start: async () => {
      const server = await startRedis();
      return { open: () => drivenRedisStore(server.url), stop: () => server.stop() };
    },
  },
  {
    name: "redis-cluster",
    start: async () => {
      const cluster = await startRedisCluster();
      return { open: () => drivenRedisStore(cluster.url), stop: () => cluster.stop() };
    },
  },
];

export interface Bench {
  store: DrivenStore;
  /** Unique per test and equal on all backends. Used for cluster ids and key prefixes. */
  name: string;
}

/**
 * Declares the same tests for every backend, and one more test: all backends gave exactly the same replies to the same
 * calls.
 */
export function forEachBackend(subject: string, tests: (promise: Declare) => void): void {
  const transcripts = new Map<string, Map<string, RecordedCall[]>>();

  describe.each(backends)(`${subject} on $name`, (backend) => {
    const own = new Map<string, RecordedCall[]>();
    transcripts.set(backend.name, own);
    let running: Awaited<ReturnType<Backend["start"]>>;
    let store: DrivenStore;
    beforeAll(async () => {
      running = await backend.start();
      store = running.open();
    });
    afterAll(async () => {
      await store?.close();
      await running?.stop();
    });
    beforeEach(() => {
      store.clock.now = START;
      store.calls.length = 0;
    });

    let count = 0;
    tests((promise, body) => {
      const name = `t${++count}`;
      it(promise, async () => {
        await body({ store, name });
        own.set(promise, [...store.calls]);
      });
    });
  });

  it(`${subject}: embedded, redis and redis-cluster gave identical replies`, () => {
    const [first, ...others] = [...transcripts.values()];
    expect(first?.size).toBeGreaterThan(0);
    for (const other of others) expect(other).toEqual(first);
  });
}

type Declare = (promise: string, body: (bench: Bench) => Promise<void>) => void;
