/** A short, repeatable run of each fuzz target, and the inputs that failed before. `make fuzz` runs them for longer. */
import { describe, expect, it } from "vitest";
import { fuzz, problemOf } from "../../fuzz/loop.js";
import { createMutator } from "../../fuzz/mutation.js";
import { regressionsOf } from "../../fuzz/regressions.js";
import type { FuzzTarget } from "../../fuzz/target.js";
import { targets } from "../../fuzz/targets/targets.js";

const SEED = 1;
/** A second or two each. */
const inputs: Record<string, number> = {
  grpc: 20_000,
  sync: 3_000,
  http1: 400,
  http2: 400,
  "gateway-http2": 300,
  config: 500,
};

describe.each(Object.entries(targets))("%s", (name, target) => {
  it("handles mutated inputs within its budgets", async () => {
    const { failures } = await fuzz(target, { seed: SEED, goOn: (done) => done < inputs[name]! });
    expect(failures).toEqual([]);
  });

  it("handles all inputs that failed before", async () => {
    const running = await target.start();
    const failed: string[] = [];
    for (const { name: file, input } of regressionsOf(name)) {
      const reason = await problemOf(running, input, target.budget);
      if (reason !== undefined) failed.push(`${file}: ${reason}`);
    }
    await running.stop();
    expect(failed).toEqual([]);
  });
});

describe("the fuzzer", () => {
  const seeds = [Buffer.from("GET / HTTP/1.1"), Buffer.from("PUT")];
  const words = ["x", "\xff"];

  /** Fails as `run` does. */
  const failing = (run: (input: Buffer) => void): FuzzTarget => ({
    seeds,
    words,
    maxBytes: 100,
    budget: { cpuMs: 100, memoryMb: 20 },
    start: async () => ({ run, stop: async () => {} }),
  });
  const only = { seed: SEED, goOn: (done: number) => done < 1 };

  it("makes the same inputs from the same seed, and others from another", () => {
    const list = (seed: number) => {
      const next = createMutator({ seeds, words, maxBytes: 100 }, seed);
      return Array.from({ length: 50 }, () => next().toString("hex"));
    };
    expect(list(1)).toEqual(list(1));
    expect(list(1)).not.toEqual(list(2));
    expect(list(1).every((input) => input.length <= 200)).toBe(true);
  });

  it("finds inputs that throw, use too much CPU time, or too much memory", async () => {
    const kept: Buffer[] = [];
    const reasonOf = async (run: (input: Buffer) => void) => (await fuzz(failing(run), only)).failures[0]?.reason;
    expect(
      await reasonOf(() => {
        throw new Error("a bug");
      }),
    ).toContain("a bug");
    expect(
      await reasonOf(() => {
        const start = process.cpuUsage();
        while (process.cpuUsage(start).user + process.cpuUsage(start).system < 200_000);
      }),
    ).toContain("CPU time");
    expect(await reasonOf(() => void kept.push(Buffer.alloc(100 * 1_048_576)))).toContain("MB");
    expect(await reasonOf(() => {})).toBeUndefined();
  });
});
