/** How the tests run: two at a time, against real servers, with line coverage of what also runs as Lua. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // The suite starts Redis clusters: more at once than two would measure the machine, not the code.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    reporters: ["default", ["json", { outputFile: "test-results.json" }]],
    coverage: {
      provider: "v8",
      include: ["src/core/**/*.ts", "src/scripts/**/*.ts"],
      // Lua's side of the host never runs in Node; the others are types alone, or a list of re-exports.
      exclude: ["src/core/host-lua.ts", "src/core/portable.ts", "src/scripts/redis-api.ts"],
      reporter: ["text", "json-summary"],
      thresholds: { lines: 95 },
    },
  },
});
