/** Counts over time in a fixed number of steps. A step is one second at first and doubles when the steps run out. */

export const STEPS = 60;
const FIRST_STEP_MS = 1000;

export interface Series {
  requests: Uint32Array;
  refused: Uint32Array;
}

export function createTimeline(startMs: number) {
  const all: Series[] = [];
  let stepMs = FIRST_STEP_MS;

  function halve(counts: Uint32Array): void {
    for (let i = 0; i < STEPS; i++) counts[i] = i < STEPS / 2 ? counts[2 * i]! + counts[2 * i + 1]! : 0;
  }

  return {
    startMs,
    stepMs: () => stepMs,
    series(): Series {
      const series = { requests: new Uint32Array(STEPS), refused: new Uint32Array(STEPS) };
      all.push(series);
      return series;
    },
    /** The step of a time. Times before the start belong to the first step. */
    stepAt(ms: number): number {
      const passed = Math.max(ms - startMs, 0);
      while (passed >= stepMs * STEPS) {
        stepMs *= 2;
        for (const { requests, refused } of all) {
          halve(requests);
          halve(refused);
        }
      }
      return Math.floor(passed / stepMs);
    },
  };
}
