/** Terraform with the providers that `make deploy-tools` has built, in a copy of the deployment files. */
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fromRoot } from "../../../build/paths.js";
import type { ToolResult } from "./tools.js";

const run = promisify(execFile);
const providers = ["helm", "kubernetes", "random", "aws"];

/** Runs terraform with settings of its own. */
export async function terraform(cwd: string, args: string[], settings = "/dev/null"): Promise<ToolResult> {
  const env = { ...process.env, TF_CLI_CONFIG_FILE: settings, CHECKPOINT_DISABLE: "1", TF_IN_AUTOMATION: "1" };
  try {
    const { stdout, stderr } = await run("terraform", args, { cwd, env, maxBuffer: 64 * 1024 * 1024 });
    return { status: 0, output: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { status: code, output: `${stdout}${stderr}` };
  }
}

export type TerraformCopy = ReturnType<typeof copyTerraform>;

/** A copy of the deployment files in which terraform can write. It asks no registry for providers. */
export function copyTerraform() {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-terraform-"));
  cpSync(fromRoot("deploy"), join(folder, "deploy"), { recursive: true });
  const settings = join(folder, "terraform.rc");
  const overrides = providers.map((name) => `    "hashicorp/${name}" = "${fromRoot(".cache/deploy/bin")}"\n`);
  writeFileSync(settings, `provider_installation {\n  dev_overrides {\n${overrides.join("")}  }\n}\n`);
  /** The path of a module or example. */
  const path = (name: string) => join(folder, "deploy/terraform", name);
  return {
    path,
    run: (name: string, command: string, ...args: string[]) =>
      terraform(path(name), [command, "-no-color", ...args], settings),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
