/** The Terraform modules: format, linters, validated variables, and the Kubernetes part applied to a real API server. */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { type Cluster, customResource, startCluster } from "./support/cluster.js";
import { describeWith } from "./support/needs.js";
import { copyTerraform, type TerraformCopy, terraform } from "./support/terraform.js";
import { goTool, pythonTool } from "./support/tools.js";

const COMPLETE = "examples/complete";
const folders = ["network", "eks", "elasticache", "alb", "tollgate"].map((name) => `modules/${name}`).concat(COMPLETE);

describeWith(["terraform"], "the Terraform files", () => {
  it("are formatted", async () => {
    const { status, output } = await terraform(fromRoot("deploy/terraform"), ["fmt", "-check", "-recursive", "-diff"]);
    expect(status, output).toBe(0);
  });

  it("contain no backend and no credentials", () => {
    const { stdout } = spawnSync("grep", ["-rnE", 'backend "|access_key|secret_key', fromRoot("deploy/terraform")], {
      encoding: "utf8",
    });
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
  let copy: TerraformCopy;
  beforeAll(() => {
    copy = copyTerraform();
  });
  afterAll(() => copy?.remove());

  it.each(folders)("are valid: %s", async (folder) => {
    await copy.run(folder, "get");
    const { status, output } = await copy.run(folder, "validate");
    expect(status, output).toBe(0);
  });

  it("plan and apply a whole installation, with invented replies of AWS", async () => {
    await copy.run(COMPLETE, "get");
    const { status, output } = await copy.run(COMPLETE, "test");
    expect(status, output).toBe(0);
    expect(output).toContain("2 passed, 0 failed");
  });

  it.each([
    ["environment=prod", "environment must be dev, staging or production"],
    ["max_connections_per_pod=1.5", "must be a whole number of at least 1"],
    ["redis_url=rediss://user:secret@host", "must not contain a password"],
  ])("reject %s and name the reason", async (variable, reason) => {
    const valid = ["namespace=n", "project_name=p", "region=r", "environment=dev", "max_connections_per_pod=2"];
    const variables = [...valid, "rate_limit_requests_per_minute=60", variable].flatMap((each) => ["-var", each]);
    const { status, output } = await copy.run("modules/tollgate", "plan", "-input=false", ...variables);
    expect({ status, output: output.replace(/\s*\n\W*/g, " ") }).toEqual({
      status: 1,
      output: expect.stringContaining(reason),
    });
  });
});

/** What kubernetes.tf refers to: providers for the cluster, and outputs of AWS. The controller's chart brings only its resource. */
const instead = (kubeconfig: string) => `
provider "kubernetes" {
  config_path = "${kubeconfig}"
}
provider "helm" {
  kubernetes = { config_path = "${kubeconfig}" }
}
resource "random_password" "redis" {
  length = 64
}
resource "helm_release" "load_balancer_controller" {
  name  = "aws-load-balancer-controller"
  chart = "\${path.module}/controller"
}
module "network" {
  source = "./aws"
}
module "elasticache" {
  source = "./aws"
}
module "alb" {
  source = "./aws"
}
`;
const outputs = {
  vpc_cidr: "10.0.0.0/16",
  url: "rediss://default@redis.example.com:6379",
  target_group_arn: "arn:aws:elasticloadbalancing:us-west-2:123456789012:targetgroup/t/1",
};
const targetGroupBinding = customResource("elbv2.k8s.aws", "v1beta1", "TargetGroupBinding");

describeWith(["terraform", "tools", "cluster", "providers"], "the Kubernetes part of the Terraform example", () => {
  let cluster: Cluster;
  let copy: TerraformCopy;
  const call = (command: string, ...variables: string[]) => {
    const needed = ["certificate_arn=not-used", "public_access_cidrs=[]", ...variables];
    const args = command === "plan" ? [] : ["-auto-approve"];
    return copy.run(COMPLETE, command, "-input=false", ...args, ...needed.flatMap((each) => ["-var", each]));
  };

  beforeAll(async () => {
    cluster = await startCluster();
    copy = copyTerraform();
    const folder = copy.path(COMPLETE);
    for (const name of ["outputs.tf", "tests"]) rmSync(join(folder, name), { recursive: true });
    for (const name of ["aws", "controller/crds"]) mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(join(folder, "main.tf"), instead(cluster.kubeconfig));
    const written = Object.entries(outputs).map(([name, value]) => `output "${name}" {\n  value = "${value}"\n}\n`);
    writeFileSync(join(folder, "aws/main.tf"), written.join(""));
    writeFileSync(join(folder, "controller/Chart.yaml"), "apiVersion: v2\nname: controller\nversion: 1.0.0\n");
    writeFileSync(join(folder, "controller/crds/binding.yaml"), JSON.stringify(targetGroupBinding));
    const { status, output } = await copy.run(COMPLETE, "get");
    expect(status, output).toBe(0);
  });
  afterAll(async () => {
    await cluster?.stop();
    copy?.remove();
  });

  it("is planned, applied, changed and destroyed", async () => {
    const planned = await call("plan");
    expect({ ...planned }).toEqual({
      status: 0,
      output: expect.stringContaining("5 to add, 0 to change, 0 to destroy"),
    });
    const applied = await call("apply");
    expect(applied.status, applied.output).toBe(0);
    const found = async (kind: string, name: string) =>
      (await cluster.kubectl("get", kind, name, "--namespace", "tollgate", "--output", "yaml")).output;
    expect(await found("namespace", "tollgate")).toContain("pod-security.kubernetes.io/enforce: restricted");
    expect(await found("targetgroupbinding", "tollgate")).toContain(outputs.target_group_arn);
    const configuration = () => found("configmap", "tollgate");
    expect(await configuration()).toContain("max_per_pod: 2");
    const again = await call("apply");
    expect(again.output).toContain("0 added, 0 changed, 0 destroyed");
    const changed = await call("apply", "max_connections_per_pod=5");
    expect(changed.output).toContain("0 added, 1 changed, 0 destroyed");
    expect(await configuration()).toContain("max_per_pod: 5");
    const destroyed = await call("destroy");
    expect(destroyed.output).toContain("5 destroyed");
  });
});
