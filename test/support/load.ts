/** Keeps calls going while something breaks, and keeps what became of each. */

import { StoreError } from "../../src/store/errors.js";
import { loopMs } from "./loop-time.js";
import { pause } from "./wait-for.js";

export interface Load {
  /** What became of the calls so far: "ok" or the kind of the StoreError. */
  outcomes: Map<string, number>;
  /** The longest time a call took to settle. */
  slowestMs: number;
  /** What rejected with something else than a StoreError. */
  foreign: unknown[];
  /** How many calls in a row went well until now. */
  streak: number;
  /** Ends the load and waits for what is under way. */
  stop(): Promise<void>;
}

/** `workers` loops, each calling again as soon as its call has settled. */
export function startLoad(workers: number, call: (id: string) => Promise<unknown>): Load {
  let stopped = false;
  let next = 0;
  const load: Load = { outcomes: new Map(), slowestMs: 0, foreign: [], streak: 0, stop };

  async function work(): Promise<void> {
    while (!stopped) {
      const start = loopMs();
      const outcome = await call(`op-${next++}`).then(
        () => "ok",
        (error: unknown) => {
          if (error instanceof StoreError) return error.kind;
          load.foreign.push(error);
          return "foreign";
        },
      );
      load.slowestMs = Math.max(load.slowestMs, loopMs() - start);
      load.outcomes.set(outcome, (load.outcomes.get(outcome) ?? 0) + 1);
      load.streak = outcome === "ok" ? load.streak + 1 : 0;
      // Refusals come at once; without a pause the loop would be all there is.
      if (outcome !== "ok") await pause(5);
    }
  }

  const working = Array.from({ length: workers }, work);
  async function stop(): Promise<void> {
    stopped = true;
    await Promise.all(working);
  }
  return load;
}
