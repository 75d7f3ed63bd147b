/** How to start the command line of tollgate from a test. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fromRoot } from "../../build/paths.js";

/** Arguments of Node: what `make build` built if that is up to date, otherwise the sources, which take seconds to load. */
export function tollgateProgram(): string[] {
  return isBuildCurrent() ? [fromRoot("dist/cli/main.js")] : ["--import", "tsx", fromRoot("src/cli/main.ts")];
}

/** Like the rule in the Makefile: the build started after the last change. A folder changes with the files in it. */
function isBuildCurrent(): boolean {
  const started = statSync(fromRoot("dist/.built/js"), { throwIfNoEntry: false })?.mtimeMs;
  if (started === undefined) return false;
  const sources = readdirSync(fromRoot("src"), { recursive: true, encoding: "utf8" });
  const paths = ["tsconfig.json", "tsconfig.dist.json", ...sources.map((name) => join("src", name))];
  return paths.every((path) => statSync(fromRoot(path)).mtimeMs <= started);
}
