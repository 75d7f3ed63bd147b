/** Calls in a loop during a fault, and counts the outcomes. */

import { StoreError } from "../../src/store/errors.js";
import { loopMs } from "./loop-time.js";
import { pause } from "./wait-for.js";

export interface Load {
  /** Outcomes so far: "ok" or the kind of the StoreError. */
  outcomes: Map<string, number>;
  /** The longest duration of a call, by `loopMs`. */
  slowestMs: number;
  /** Rejections that are not a StoreError. */
  foreign: unknown[];
  /** The current number of successful calls in a row. */
  streak: number;
  /** Ends the load and waits for pending calls. */
  stop(): Promise<void>;
}

/** `workers` loops; each repeats its call when the previous one has finished. */
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
      // Errors can be immediate; without a pause the loop would block the process.
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
