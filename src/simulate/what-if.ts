/** Replays recorded requests with the current and another configuration, in a thread. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { limiterOptions } from "../config/options/limiter.js";
import type { Config } from "../config/schema.js";
import { baseCost } from "../core/cost.js";
import { createWorld } from "./world.js";

export type RecordedRequest = [at: number, app: string, method: string, cost: number];

export interface WhatIfInput {
  before: Config;
  after: Config;
  /** Oldest first. */
  requests: RecordedRequest[];
  nodes: number;
}

export interface WhatIfApp {
  app: string;
  requests: number;
  refusedBefore: number;
  refusedAfter: number;
}

/** Threads cannot run the sources, only what is built from them. */
const isBuilt = !import.meta.url.endsWith(".ts");
const LONGEST_MS = 60_000;

/** Rejects if the simulation fails or takes longer than a minute. */
export async function whatIf(input: WhatIfInput): Promise<WhatIfApp[]> {
  if (!isBuilt) return simulateBoth(input);
  const thread = new Worker(new URL("what-if-thread.js", import.meta.url), {
    workerData: input,
    resourceLimits: { maxOldGenerationSizeMb: 512 },
  });
  try {
    const [apps] = (await once(thread, "message", { signal: AbortSignal.timeout(LONGEST_MS) })) as [WhatIfApp[]];
    return apps;
  } finally {
    await thread.terminate();
  }
}

export async function simulateBoth({ before, after, requests, nodes }: WhatIfInput): Promise<WhatIfApp[]> {
  const bytes = bytesOf(before);
  async function simulate(config: Config) {
    const world = createWorld({ config, nodes, startMs: requests[0]?.[0] ?? 0 });
    for (const [order, [at, app, method, cost]] of requests.entries()) {
      const size = { requestBytes: bytes(app, method, cost), responseBytes: 0 };
      await world.submit({ at, coarse: false, order, app, method, ...size, durationMs: 0 });
    }
    return new Map((await world.finish()).map((one) => [one.app, one]));
  }
  const [first, second] = await Promise.all([simulate(before), simulate(after)]);
  return [...first.values()].map(({ app, requests: count, refused }) => ({
    app,
    requests: count,
    refusedBefore: refused,
    refusedAfter: second.get(app)?.refused ?? 0,
  }));
}

/** The size of a request with this cost in the current profile of the app, so that another profile changes its cost. */
function bytesOf(config: Config): (app: string, method: string, cost: number) => number {
  const apps = new Map(limiterOptions(config).apps.map((app) => [app.id, app]));
  return (app, method, cost) => {
    const profile = apps.get(app)?.profile;
    if (profile === undefined || profile.bandwidth <= 0) return 0;
    const quanta = Math.max(Math.floor((cost - baseCost(profile, method)) / profile.bandwidth), 0);
    return Math.min(Math.floor(quanta * profile.quantum), Number.MAX_SAFE_INTEGER);
  };
}
