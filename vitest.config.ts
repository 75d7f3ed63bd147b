/** How the tests run: four files at a time, against real servers, with line coverage of the code that also runs as Lua. */
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Starts the end-to-end files first: they take minutes, mostly waiting, and the short files fill the second worker. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => moduleId.includes("/test/e2e/");
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  // The examples import the package by its name, as its users do.
  resolve: {
    alias: [
      { find: /^@tollgate\/limiter$/, replacement: new URL("./src/index.ts", import.meta.url).pathname },
      {
        find: /^@tollgate\/limiter\//,
        replacement: new URL("./src/limiter/library/middleware/", import.meta.url).pathname,
      },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/deploy/**", "test/monitoring/**"],
    // On two cores: the long files mostly wait. More at a time would make the servers slow, and some tests start whole Redis clusters.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    // Long enough for a busy machine: only a test that hangs should reach them.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    reporters: ["default", ["json", { outputFile: "test-results.json" }]],
    coverage: {
      provider: "v8",
      include: ["src/core/**/*.ts", "src/engine/**/*.ts", "src/scripts/**/*.ts"],
      // The Lua side of the platform never runs in Node; the other two contain only types or re-exports.
      exclude: ["src/core/platform-lua.ts", "src/core/portable.ts", "src/scripts/redis-api.ts"],
      reporter: ["text", "json-summary"],
      thresholds: { lines: 95 },
    },
  },
});
