/** An earlier release, built from its commit with its own scripts, for tests of upgrades. Kept in .cache/upgrade. */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fromRoot } from "../../build/paths.js";

/** Release 0.2.0. The commit instead of the tag, because clones may have no tags. */
export const RELEASE_0_2_0 = "6b2e493";

/** Why the release cannot be built here, or undefined. A shallow clone does not have its commit. */
export function missingRelease(commit: string): string | undefined {
  try {
    git("cat-file", "-e", `${commit}^{commit}`);
    return undefined;
  } catch {
    return `this clone does not contain the commit ${commit}; get it with: git fetch --unshallow`;
  }
}

/** Returns the folder of the release. The first call takes a minute on a quiet machine. */
export function buildRelease(commit: string): string {
  const folder = fromRoot(`.cache/upgrade/${commit}`);
  const packages = samePackages(commit) ? "shared" : "own";
  const isReady = existsSync(join(folder, "ready")) && readFileSync(join(folder, "ready"), "utf8") === packages;
  if (isReady) return folder;
  mkdirSync(fromRoot(".cache/upgrade"), { recursive: true });
  // Another test run may build it at the same time, so it appears in one step.
  const draft = mkdtempSync(`${folder}.`);
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { cwd: draft, stdio: ["ignore", "ignore", "inherit"] });
  const archive = join(draft, "archive.tar");
  git("archive", "--output", archive, commit);
  run("tar", "-xf", archive);
  rmSync(archive);
  if (packages === "shared") symlinkSync(fromRoot("node_modules"), join(draft, "node_modules"));
  else run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent");
  run("npm", "run", "--silent", "build:lua");
  run("npm", "run", "--silent", "build:js");
  writeFileSync(join(draft, "ready"), packages);
  rmSync(folder, { recursive: true, force: true });
  try {
    renameSync(draft, folder);
  } catch (error) {
    // The other run was faster.
    if (!existsSync(join(folder, "ready"))) throw error;
    rmSync(draft, { recursive: true });
  }
  return folder;
}

function git(...args: string[]): string {
  return execFileSync("git", args, { cwd: fromRoot("."), encoding: "utf8", stdio: "pipe", maxBuffer: 64 * 1_048_576 });
}

/** The release can use the installed packages if only its own version differs. */
function samePackages(commit: string): boolean {
  const withoutVersion = (text: string) => {
    const lock = JSON.parse(text) as { version: string; packages: Record<string, { version?: string }> };
    return JSON.stringify({ ...lock, version: "", packages: { ...lock.packages, "": "" } });
  };
  const then = withoutVersion(git("show", `${commit}:package-lock.json`));
  return then === withoutVersion(readFileSync(fromRoot("package-lock.json"), "utf8"));
}
