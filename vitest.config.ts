/** How the tests run: two at a time, against real servers, with line coverage of what also runs as Lua. */
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** End to end first: they take minutes, mostly waiting, and the short ones fill the time beside them. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => moduleId.includes("/test/e2e/");
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  // The examples import the package by its name, as its users do.
  resolve: { alias: { tollgate: new URL("./src/index.ts", import.meta.url).pathname } },
  test: {
    include: ["test/**/*.test.ts"],
    // The suite starts Redis clusters: more at once than two would measure the machine, not the code.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // Real servers are killed, stopped and slowed here. On a machine that is busy with something else one of them may
    // take longer than any test should wait, so the build tries once more; who works on the code sees it at once.
    retry: process.env.CI === undefined ? 0 : 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ["default", ["json", { outputFile: "test-results.json" }]],
    coverage: {
      provider: "v8",
      include: ["src/core/**/*.ts", "src/scripts/**/*.ts"],
      // Lua's side of the host never runs in Node; the others are types alone, or a list of re-exports.
      exclude: ["src/core/platform-lua.ts", "src/core/portable.ts", "src/scripts/redis-api.ts"],
      reporter: ["text", "json-summary"],
      thresholds: { lines: 95 },
    },
  },
});
