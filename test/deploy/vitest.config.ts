/** Tests of the deployment files, run by `make test-deploy`: one file at a time, because they start whole stacks. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/deploy/**/*.test.ts"],
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ["default"],
  },
});
