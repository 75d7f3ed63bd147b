/**
 * `make release VERSION=1.2.3`: the release checklist, up to a tag on this machine. First comes the version commit, then all checks on a
 * clean clone of exactly this commit, then the tag. Nothing is pushed or published; pushing the tag starts .github/workflows/release.yml.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { notesOf, promote, requireNext } from "./changelog.js";
import { type Command, cloneOf } from "./clean-clone.js";

export interface ReleaseOptions {
  version: string;
  /** Working tree of the repository. */
  root: string;
  date: string;
  /** Commands that must succeed in the clone before the commit gets its tag. */
  checks: Command[];
  /** Commands that derive files from the version. */
  derive: Command[];
  log(line: string): void;
}

export function prepareRelease(options: ReleaseOptions): void {
  const { version, root, log } = options;
  const git = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
  const read = (name: string) => readFileSync(join(root, name), "utf8");
  const tag = `v${version}`;

  if (git("status", "--porcelain") !== "") throw new Error("there are uncommitted changes");
  if (git("tag", "--list", tag) !== "") throw new Error(`the tag ${tag} exists`);
  log(`[x] working tree clean, ${tag} is free`);

  const { version: current } = JSON.parse(read("package.json")) as { version: string };
  // An earlier run made the version commit, but a check failed.
  const isCommitted = current === version && read("CHANGELOG.md").includes(`\n## ${version} `);
  if (isCommitted) log(`[x] version ${version} is committed already`);
  else commitVersion(options, current, git);

  const commit = git("rev-parse", "HEAD");
  checkCommit(options, commit);

  // By default, git removes lines with # from the message: the headings of the notes.
  const message = `Release ${version}\n\n${notesOf(git("show", `${commit}:CHANGELOG.md`), version)}`;
  git("tag", "--annotate", tag, "--cleanup", "whitespace", "--message", message, commit);
  log(`[x] tag ${tag} on ${commit.slice(0, 7)}`);
}

function commitVersion(
  { version, root, date, derive, log }: ReleaseOptions,
  current: string,
  git: (...args: string[]) => string,
): void {
  requireNext(current, version, git("tag", "--list", "v*") === "");
  const run = ([program, ...args]: Command) => execFileSync(program, args, { cwd: root, stdio: "inherit" });
  const changelog = join(root, "CHANGELOG.md");
  const promoted = promote(readFileSync(changelog, "utf8"), version, date);
  writeFileSync(changelog, promoted);
  if (version !== current) run(["npm", "version", version, "--no-git-tag-version", "--ignore-scripts"]);
  for (const command of derive) run(command);
  git("add", "--all");
  git("commit", "--quiet", "--message", `Release ${version}`);
  log(`[x] commit of version ${version}, with CHANGELOG.md and all files derived from it`);
}

function checkCommit({ version, root, checks, log }: ReleaseOptions, commit: string): void {
  const clone = cloneOf(root, commit);
  log(`[x] clean clone of ${commit.slice(0, 7)} in ${clone.folder}`);
  for (const check of checks) {
    log(`[ ] ${check.join(" ")}`);
    try {
      clone.run(check);
    } catch (error) {
      throw new Error(`${(error as Error).message}

The commit ${commit.slice(0, 7)} has no tag, because "${check.join(" ")}" failed in ${clone.folder}.
To repair it: commit a fix on top, then make release VERSION=${version} again, which checks and tags that commit.
To undo: git reset --hard ${commit.slice(0, 7)}~1`);
    }
    log(`[x] ${check.join(" ")}`);
  }
  clone.remove();
}

/** What remains of the checklist. */
export const nextSteps = (version: string) => `
[ ] git push origin HEAD v${version}     starts the workflow: npm packages, images, chart, SBOM, signatures, release notes
[ ] deploy to staging                    helm upgrade tollgate oci://ghcr.io/tollgate/charts/tollgate --version ${version} --namespace staging --atomic
[ ] smoke tests in staging               helm test tollgate --namespace staging
[ ] deploy to production                 the same with --namespace production
[ ] verify the monitoring                tollgate status --watch, dashboards, no new alerts

To undo before the push: git tag --delete v${version} && git reset --hard HEAD~1`;
