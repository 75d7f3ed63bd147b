/** `make build` builds again after a change to any file that the build reads. Assumes a current build, as the other tests do. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { dependencyRules } from "../../build/dependencies.js";
import { bundleSources, luaBundle } from "../../build/lua-bundle.js";
import { fromRoot } from "../../build/paths.js";
import { portableProgram } from "../../build/portable-program.js";

/** Whether make would build the target if the file had just been changed. The file itself is left alone. */
function isBuiltAfter(target: string, file?: string): boolean {
  const changed = file === undefined ? [] : ["-W", file];
  const { status, stderr } = spawnSync("make", ["-q", ...changed, `dist/.built/${target}`], {
    cwd: fromRoot("."),
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  return status === 1;
}

function listed(target: string): string[] {
  const [rule] = readFileSync(fromRoot(`dist/.built/${target}.d`), "utf8").split("\n\n");
  return rule!.split(/[\s\\]+/).slice(1);
}

const bundleEntries = ["src/planes/nginx/main.ts", "src/planes/envoy/module-main.ts", "src/core/portable.ts"];

it("the Lua bundles are built again after a change to any file that they import", () => {
  expect(isBuiltAfter("lua")).toBe(false);
  const program = portableProgram([...bundleEntries, "src/scripts/catalog.ts"].map(fromRoot));
  const sources = program.getSourceFiles().map(({ fileName }) => fileName.slice(fromRoot(".").length + 1));
  expect(sources).toContain("src/limit-rules/limit-rules.ts");
  expect(listed("lua")).toEqual(expect.arrayContaining(sources));
  expect(listed("lua")).toEqual(expect.arrayContaining(["build/main.ts", "build/redis-library.ts", "build/paths.ts"]));
  const onePerFolder = new Map(listed("lua").map((file) => [dirname(file), file]));
  for (const file of onePerFolder.values()) expect([file, isBuiltAfter("lua", file)]).toEqual([file, true]);
  expect(isBuiltAfter("lua", "src/cli/main.ts")).toBe(false);
});

it("the dashboard is built again after a change to its own files and to those that it shares with the service", () => {
  expect(isBuiltAfter("dashboard")).toBe(false);
  const files = [...listed("dashboard"), "dashboard/vite.config.ts"];
  expect(files).toContain("src/service/metrics/labels.ts");
  for (const file of files) expect([file, isBuiltAfter("dashboard", file)]).toEqual([file, true]);
  expect(isBuiltAfter("dashboard", "src/cli/main.ts")).toBe(false);
});

it("JavaScript is built again after a change to any source", () => {
  expect(isBuiltAfter("js")).toBe(false);
  for (const file of ["src/cli/main.ts", "src/limit-rules/limit-rules.ts", "tsconfig.json", "src/store"])
    expect([file, isBuiltAfter("js", file)]).toEqual([file, true]);
});

it("the library package is built again after a change to any source, and to its own files", () => {
  expect(isBuiltAfter("library")).toBe(false);
  for (const file of ["src/index.ts", "src/scripts/grant.ts", "package.json", "build/library/manifest.ts"])
    expect([file, isBuiltAfter("library", file)]).toEqual([file, true]);
});

it("a file that is imported from now on belongs to the sources, and a removed one causes a build", () => {
  const folder = mkdtempSync(fromRoot(".cache/dependencies-"));
  const [entry, imported] = [join(folder, "entry.ts"), join(folder, "imported.ts")];
  try {
    writeFileSync(imported, "export function one(): number {\n  return 1;\n}\n");
    writeFileSync(entry, 'import { one } from "./imported.js";\nexport const two = () => one() + one();\n');
    luaBundle({ entry, target: "JIT" });
    expect([...bundleSources()]).toContain(imported);
  } finally {
    rmSync(folder, { recursive: true });
  }
  const dir = mkdtempSync(join(tmpdir(), "tollgate-make-"));
  writeFileSync(join(dir, "built"), "");
  writeFileSync(
    join(dir, "Makefile"),
    `built:\n\ttouch built\n${dependencyRules("built", [fromRoot("no-longer-there.ts")])}`,
  );
  const { status, stderr } = spawnSync("make", ["-q", "built"], { cwd: dir, encoding: "utf8" });
  rmSync(dir, { recursive: true });
  expect([status, stderr]).toEqual([1, ""]);
});
