/** The Terraform modules: format, linters, validated variables, and the Kubernetes part applied to a real API server. */
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CHART } from "../../build/deploy/values.js";
import { fromRoot } from "../../build/paths.js";
import { type Cluster, startCluster } from "./support/cluster.js";
import { describeWith } from "./support/needs.js";
import { goTool, pythonTool } from "./support/tools.js";

const run = promisify(execFile);
const folders = [
  "modules/network",
  "modules/eks",
  "modules/elasticache",
  "modules/alb",
  "modules/tollgate",
  "examples/complete",
];

/** Exit code and output of terraform, with a configuration of its own. */
async function terraform(cwd: string, args: string[], env: Record<string, string> = {}) {
  try {
    const options = { cwd, env: { ...process.env, TF_CLI_CONFIG_FILE: "/dev/null", CHECKPOINT_DISABLE: "1", ...env } };
    const { stdout, stderr } = await run("terraform", args, options);
    return { status: 0, output: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { status: code, output: `${stdout}${stderr}` };
  }
}

/** Settings with which Terraform uses the providers that were built here, and asks no registry for them. */
function writeSettings(folder: string): Record<string, string> {
  const overrides = ["helm", "kubernetes", "random", "aws"].map(
    (name) => `    "hashicorp/${name}" = "${fromRoot(".cache/deploy/bin")}"\n`,
  );
  const file = join(folder, "terraform.rc");
  writeFileSync(file, `provider_installation {\n  dev_overrides {\n${overrides.join("")}  }\n}\n`);
  return { TF_CLI_CONFIG_FILE: file };
}

describeWith(["terraform"], "the Terraform files", () => {
  it("are formatted", async () => {
    const { status, output } = await terraform(fromRoot("deploy/terraform"), ["fmt", "-check", "-recursive", "-diff"]);
    expect(status, output).toBe(0);
  });

  it("contain no backend and no credentials", async () => {
    const { stdout } = await run("grep", [
      "-rnE",
      'backend "|access_key|secret_key',
      fromRoot("deploy/terraform"),
    ]).catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  });
});

describeWith(["tools"], "checkov", () => {
  it("accepts the Terraform files, apart from exceptions that are explained next to the resource", () => {
    const { status, output } = pythonTool(
      ...(["terraform", "checkov", "--directory", "deploy/terraform", "--framework", "terraform"] as const),
      ...["--compact", "--quiet", "--skip-download"],
    );
    expect(status, output).toBe(0);
  });
});

describeWith(["tflint"], "tflint", () => {
  it.each(folders)("accepts %s", (folder) => {
    const { status, output } = goTool("tflint")(
      ...["--chdir", `deploy/terraform/${folder}`, "--minimum-failure-severity=notice"],
    );
    expect(status, output).toBe(0);
  });
});

describeWith(["terraform", "providers"], "the Terraform files, with the schemas of the providers", () => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-terraform-"));
  const env = writeSettings(folder);
  beforeAll(() => cpSync(fromRoot("deploy"), join(folder, "deploy"), { recursive: true }));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(folders)("are valid: %s", async (name) => {
    const cwd = join(folder, "deploy/terraform", name);
    await terraform(cwd, ["get", "-no-color"], env);
    const { status, output } = await terraform(cwd, ["validate", "-no-color"], env);
    expect(status, output).toBe(0);
  });

  it("plan and apply a whole installation, with invented replies of AWS", async () => {
    const cwd = join(folder, "deploy/terraform/examples/complete");
    await terraform(cwd, ["get", "-no-color"], env);
    const { status, output } = await terraform(cwd, ["test", "-no-color"], env);
    expect(status, output).toBe(0);
    expect(output).toContain("2 passed, 0 failed");
  });
});

describeWith(["terraform", "tools", "cluster", "providers"], "the module tollgate", () => {
  let cluster: Cluster;
  const folder = mkdtempSync(join(tmpdir(), "tollgate-terraform-"));
  const env = writeSettings(folder);
  const apply = (...variables: string[]) =>
    terraform(
      folder,
      ["apply", "-auto-approve", "-input=false", "-no-color", ...variables.flatMap((each) => ["-var", each])],
      env,
    );

  beforeAll(async () => {
    cluster = await startCluster();
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "tollgate", labels } });
    await cluster.apply({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "tollgate-tokens", namespace: "tollgate" },
      stringData: { "admin-token": "admin-token-of-the-test", "plane-token": "plane-token-of-the-test" },
    });
    cpSync(fromRoot("deploy/terraform/modules/tollgate"), join(folder, "tollgate"), { recursive: true });
    writeFileSync(
      join(folder, "main.tf"),
      `provider "helm" {
  kubernetes = { config_path = "${cluster.kubeconfig}" }
}
variable "max_connections_per_pod" { default = 2 }
variable "environment" { default = "dev" }
variable "redis_url" { default = "" }
module "tollgate" {
  source                         = "./tollgate"
  chart                          = "${fromRoot(CHART)}"
  namespace                      = "tollgate"
  project_name                   = "tollgate"
  region                         = "us-west-2"
  environment                    = var.environment
  redis_url                      = var.redis_url
  tokens_secret                  = "tollgate-tokens"
  max_connections_per_pod        = var.max_connections_per_pod
  rate_limit_requests_per_minute = 60
}
`,
    );
    const { status, output } = await terraform(folder, ["get", "-no-color"], env);
    expect(status, output).toBe(0);
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("is planned, applied, changed and destroyed", async () => {
    const planned = await terraform(folder, ["plan", "-input=false", "-no-color"], env);
    expect({ ...planned }).toEqual({
      status: 0,
      output: expect.stringContaining("1 to add, 0 to change, 0 to destroy"),
    });
    const applied = await apply();
    expect(applied.status, applied.output).toBe(0);
    const configuration = async () =>
      (await cluster.kubectl("get", "configmap", "tollgate", "--namespace", "tollgate", "--output", "yaml")).output;
    expect(await configuration()).toContain("max_per_pod: 2");
    const again = await apply();
    expect(again.output).toContain("0 added, 0 changed, 0 destroyed");
    const changed = await apply("max_connections_per_pod=5");
    expect(changed.output).toContain("0 added, 1 changed, 0 destroyed");
    expect(await configuration()).toContain("max_per_pod: 5");
    const destroyed = await terraform(folder, ["destroy", "-auto-approve", "-no-color"], env);
    expect(destroyed.output).toContain("1 destroyed");
  });

  it.each([
    ["environment=prod", "environment must be dev, staging or production"],
    ["max_connections_per_pod=1.5", "must be a whole number of at least 1"],
    ["redis_url=rediss://user:secret@host", "must not contain a password"],
  ])("rejects %s and names the reason", async (variable, reason) => {
    const { status, output } = await terraform(folder, ["plan", "-input=false", "-no-color", "-var", variable], env);
    expect({ status, output: output.replace(/\s*\n\W*/g, " ") }).toEqual({
      status: 1,
      output: expect.stringContaining(reason),
    });
  });
});
