/** Two builds of the same source are identical, and files that are no longer built are removed. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { fromRoot } from "../../build/paths.js";

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

test("a build is identical to dist, and a second one in the same folder removes what is no longer built", () => {
  expect(build(folder).stderr).toBe("");
  const first = contents(folder);
  expect(Object.keys(first)).toEqual([
    "envoy/tollgate.lua",
    "jit/core.lua",
    "nginx/tollgate.lua",
    "redis/library.js",
    "redis/tollgate.lua",
  ]);
  expect(first).toEqual(contents(fromRoot("dist/lua")));
  writeFileSync(join(folder, "redis/forgotten.lua"), "return 1");
  build(folder);
  expect(contents(folder)).toEqual(first);
});
