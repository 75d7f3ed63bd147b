/** A clone of one commit, in which the checks of a release run: without untracked files, builds and settings of the working tree. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A program and its arguments. */
export type Command = [program: string, ...args: string[]];

export interface CleanClone {
  readonly folder: string;
  /** Throws if the command fails. */
  run(command: Command): void;
  remove(): void;
}

export function cloneOf(root: string, commit: string): CleanClone {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-release-"));
  execFileSync("git", ["clone", "--quiet", "--no-checkout", root, folder], { stdio: "inherit" });
  execFileSync("git", ["checkout", "--quiet", "--detach", commit], { cwd: folder, stdio: "inherit" });
  shareTools(root, folder);
  return {
    folder,
    run([program, ...args]) {
      execFileSync(program, args, { cwd: folder, stdio: "inherit", env: neutral(process.env) });
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Installed programs, some of which take hours to build. Files in .cache are state of a build, so they are not shared. */
function shareTools(root: string, folder: string): void {
  const from = join(root, ".cache");
  mkdirSync(join(folder, ".cache"), { recursive: true });
  for (const entry of readdirSafely(from)) {
    if (!entry.isDirectory() || entry.name === "release") continue;
    symlinkSync(join(from, entry.name), join(folder, ".cache", entry.name));
  }
}

function readdirSafely(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** Variables that select, skip or ignore tests have no effect on a release; TOLLGATE_ENVOY only names a program. */
export function neutral(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const selects = /^(TOLLGATE_|VITEST|MAKE|MFLAGS$|GNUMAKEFLAGS$|GIT_|NODE_OPTIONS$|SCENARIOS$|CI$)/;
  return Object.fromEntries(Object.entries(env).filter(([name]) => name === "TOLLGATE_ENVOY" || !selects.test(name)));
}
