/** What one node sends, counted on the driven clock: messages and ledger entries per second while tokens are plentiful. */
import { createSimulation, limitedApp } from "../../test/support/simulation.js";

export interface NodeLoad {
  apps: number;
  /** Requests per second of each app on this node. */
  perPair: number;
  shards: number;
}

export interface Sent {
  callsPerSecond: number;
  entriesPerSecond: number;
}

const AMPLE = { guaranteed: 100_000, burst: 1_000_000 };
/** Longer than a report interval, and than the time after which an idle lease is returned. */
const WARM_UP_SECONDS = 200;
/** At least this long, and until this many requests were made. */
const LEAST_SECONDS = 300;
const LEAST_REQUESTS = 300;

export async function simulateNode({ apps, perPair, shards }: NodeLoad): Promise<Sent> {
  const ids = Array.from({ length: apps }, (_, i) => `app-${i}`);
  const limits = ids.map((id) => limitedApp({ id, ...AMPLE }));
  const simulation = createSimulation(limits, { capacity: 1e9, rate: 1e9, shards, nodeTtlMs: 30_000 });
  const { limiter } = simulation.addNode("n1");
  const { clock, store } = simulation;
  const random = seededRandom();
  const nextGapMs = () => (-Math.log(1 - random()) * 1_000) / (perPair * apps);
  const arrive = () => {
    clock.after(nextGapMs(), arrive);
    void limiter.take(ids[Math.floor(random() * apps)]!, 1);
  };
  clock.after(nextGapMs(), arrive);
  await clock.advance(WARM_UP_SECONDS * 1_000);
  const [calls, entries] = [store.calls, store.entries];
  const seconds = Math.max(LEAST_SECONDS, LEAST_REQUESTS / (apps * perPair));
  await clock.advance(seconds * 1_000);
  return { callsPerSecond: (store.calls - calls) / seconds, entriesPerSecond: (store.entries - entries) / seconds };
}

/** The same requests in every run. */
function seededRandom(): () => number {
  let state = 1;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
