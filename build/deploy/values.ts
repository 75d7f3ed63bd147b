/** The values of the Helm chart, from which all other deployment files are derived, and Helm itself. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { fromRoot } from "../paths.js";

export const CHART = "deploy/helm/tollgate";

export function readValues(): Record<string, unknown> {
  return parse(readFileSync(fromRoot(`${CHART}/values.yaml`), "utf8")) as Record<string, unknown>;
}

/** The version is defined in package.json only. */
export function packageVersion(): string {
  return (JSON.parse(readFileSync(fromRoot("package.json"), "utf8")) as { version: string }).version;
}

/** The text with every `{{ path.of.value }}` replaced. Throws if there is no such value. */
export function substitute(text: string, values: Record<string, unknown>, source: string): string {
  return text.replace(/\{\{ ([\w.]+) \}\}/g, (_, path: string) => {
    const value = path
      .split(".")
      .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], values);
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return String(value);
    throw new Error(`${source}: ${path} is not a text, number or boolean in ${CHART}/values.yaml`);
  });
}

/** What `helm template` prints for these files with values and options. */
export function helmTemplate(release: string, files: string[], options: string[] = []): string {
  const helm = fromRoot(".cache/deploy/helm/bin/helm");
  const values = files.flatMap((file) => ["--values", fromRoot(file)]);
  const namespace = String(readValues().namespace);
  return execFileSync(
    existsSync(helm) ? helm : "helm",
    ["template", release, fromRoot(CHART), "--namespace", namespace, ...values, ...options],
    { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 },
  );
}
