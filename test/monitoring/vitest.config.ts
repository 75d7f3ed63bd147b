/** Tests of the files in monitoring/ with a running system, run by `make test-monitoring`. They take minutes. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/monitoring/**/*.test.ts"],
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ["default"],
  },
});
