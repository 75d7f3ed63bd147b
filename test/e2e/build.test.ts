/** Two builds of the same source are identical, and files that are no longer built are removed. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { fromRoot } from "../../build/paths.js";

// Each test builds everything, some twice.
vi.setConfig({ testTimeout: 180_000 });

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-build-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function build(target: string) {
  return spawnSync("node_modules/.bin/tsx", ["build/main.ts", target], { cwd: fromRoot(""), encoding: "utf8" });
}

function contents(target: string): Record<string, string> {
  const names = readdirSync(target, { recursive: true, encoding: "utf8" }).sort();
  const files = names.filter((name) => statSync(join(target, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, readFileSync(join(target, name), "utf8")]));
}

test("two builds are identical to each other and to dist", () => {
  for (const name of ["first", "second"]) expect(build(join(folder, name)).stderr).toBe("");
  const first = contents(join(folder, "first"));
  expect(Object.keys(first)).toEqual([
    "envoy/tollgate.lua",
    "jit/core.lua",
    "nginx/tollgate.lua",
    "redis/tollgate.lua",
  ]);
  expect(contents(join(folder, "second"))).toEqual(first);
  expect(contents(fromRoot("dist/lua"))).toEqual(first);
});

test("a file that is no longer built is removed", () => {
  build(folder);
  writeFileSync(join(folder, "redis/forgotten.lua"), "return 1");
  build(folder);
  expect(Object.keys(contents(folder))).not.toContain("redis/forgotten.lua");
});
