/** The limit to which the use of the heap is compared. */
import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { heapShare, oldSpaceLimit } from "../../../src/shared/overload.js";

const MB = 1_048_576;

describe("limit of the old generation", () => {
  it("is that of the command line, then that of NODE_OPTIONS", () => {
    expect(oldSpaceLimit(["--max-old-space-size=100", "--max-old-space-size=200"], 1)).toBe(100 * MB);
    expect(oldSpaceLimit(["", "--inspect --max_old_space_size=200"], 1)).toBe(200 * MB);
    expect(oldSpaceLimit(["--max-old-space-size=100 --max-old-space-size=300", ""], 1)).toBe(300 * MB);
  });

  it("is that of V8 without a flag", () => {
    expect(oldSpaceLimit(["--import tsx", ""], 4_000 * MB)).toBe(4_000 * MB);
  });

  it("is the one at which Node ends: shortly before, the share is near 1", () => {
    const module = new URL("../../../src/shared/overload.ts", import.meta.url).href;
    const script = `
      const { heapShare } = await import(${JSON.stringify(module)});
      const held = [];
      let highest = 0;
      while (highest < 0.9) {
        held.push(new Array(100_000).fill(held.length + 0.5));
        highest = Math.max(highest, heapShare());
      }
      console.log(highest);`;
    const flags = ["--import", "tsx", "--max-old-space-size=200", "--input-type=module", "-e", script];
    const highest = Number(execFileSync(process.execPath, flags).toString());
    expect(highest).toBeGreaterThanOrEqual(0.9);
    expect(highest).toBeLessThan(1);
  });
});

it("the share of this process is between 0 and 1", () => {
  expect(heapShare()).toBeGreaterThan(0);
  expect(heapShare()).toBeLessThan(1);
});
