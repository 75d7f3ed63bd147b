/** Tests of the deployment files, run by `make test-deploy`: two files at a time, the long ones first. */
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Longest first. The two that start a Kubernetes control plane are apart. */
const order = [
  "kubernetes",
  "ansible",
  "reproducible",
  "plane-images",
  "compose",
  "files",
  "terraform",
  "service-image",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = order.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return at < 0 ? order.length : at;
    };
    return [...files].sort((a, b) => place(a) - place(b));
  }
}

export default defineConfig({
  test: {
    include: ["test/deploy/**/*.test.ts"],
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ["default", ["json", { outputFile: ".cache/deploy/test-results.json" }]],
  },
});
