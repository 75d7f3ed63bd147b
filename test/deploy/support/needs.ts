/** What the tests need besides the repository. Tests whose needs are not met are skipped with a marker that .ci/run understands. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { describe } from "vitest";
import { fromRoot } from "../../../build/paths.js";
import { needs } from "../../../build/test-summary.js";
import { findEnvoy } from "../../support/envoy-binary.js";

/** Only the files are tested (`make test-deploy-files`): nothing is run that takes long. */
const filesOnly = process.env.TOLLGATE_DEPLOY_FILES_ONLY === "1" && "make test-deploy";
const isBuilt = (name: string) => existsSync(fromRoot(`.cache/deploy/bin/${name}`));
const built = (...names: string[]) => names.every(isBuilt) || "make deploy-tools";
const isRoot = process.getuid?.() === 0;

/** Each need: true, or what is missing. The variables are set by deploy/test/run.sh. */
const met = {
  /** Helm and the linters from PyPI. */
  tools: process.env.TOLLGATE_NO_TOOLS !== "1" || "Helm and the linters",
  containers: filesOnly || !process.env.TOLLGATE_NO_CONTAINERS || "containers",
  /** For builds that take minutes. */
  time: filesOnly || true,
  /** A Kubernetes control plane. */
  cluster: filesOnly || built("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"),
  actionlint: built("actionlint"),
  "kube-score": built("kube-score"),
  tflint: built("tflint"),
  providers: filesOnly || built(...["helm", "kubernetes", "random", "aws"].map((name) => `terraform-provider-${name}`)),
  terraform: spawnSync("terraform", ["version"]).status === 0 || "terraform",
  "mount namespaces":
    filesOnly || (isRoot && spawnSync("unshare", ["--mount", "true"]).status === 0) || "mount namespaces",
  envoy: findEnvoy() !== undefined || "Envoy",
} satisfies Record<string, true | string | boolean>;

export type Need = keyof typeof met;

/** Replaces `describe` for tests that need something. */
export function describeWith(list: Need[], name: string, body: () => void): void {
  const missing = list.map((need) => met[need]).find((each) => each !== true);
  if (missing === undefined) describe(name, body);
  else describe.skip(`${name} ${needs(String(missing))}`, body);
}
