/**
 * `make release VERSION=1.2.3`: the release checklist, up to a commit and a tag on this machine. Nothing is pushed or published; pushing the tag
 * starts .github/workflows/release.yml.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { notesOf, promote, requireNext } from "./changelog.js";

export interface ReleaseOptions {
  version: string;
  /** Working tree of the repository. */
  root: string;
  date: string;
  /** Commands that must succeed before anything changes: tests and checks. */
  checks: string[][];
  /** Commands that derive files from the version. */
  derive: string[][];
  log(line: string): void;
}

export function prepareRelease({ version, root, date, checks, derive, log }: ReleaseOptions): void {
  const git = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
  const run = ([command, ...args]: string[]) => execFileSync(command!, args, { cwd: root, stdio: "inherit" });
  const file = (name: string) => join(root, name);
  const tag = `v${version}`;

  const { version: current } = JSON.parse(readFileSync(file("package.json"), "utf8")) as { version: string };
  const changelog = readFileSync(file("CHANGELOG.md"), "utf8");
  requireNext(current, version, git("tag", "--list", "v*") === "");
  if (git("status", "--porcelain") !== "") throw new Error("there are uncommitted changes");
  if (git("tag", "--list", tag) !== "") throw new Error(`the tag ${tag} exists`);
  const promoted = promote(changelog, version, date);
  log(`[x] working tree clean, ${tag} is free, CHANGELOG.md has changes`);

  for (const check of checks) {
    log(`[ ] ${check.join(" ")}`);
    run(check);
    log(`[x] ${check.join(" ")}`);
  }

  writeFileSync(file("CHANGELOG.md"), promoted);
  if (version !== current) run(["npm", "version", version, "--no-git-tag-version", "--ignore-scripts"]);
  for (const command of derive) run(command);
  log(`[x] version ${version} in package.json, and in all files derived from it`);

  git("add", "--all");
  git("commit", "--quiet", "--message", `Release ${version}`);
  // By default, git removes lines with # from the message: the headings of the notes.
  git(
    "tag",
    "--annotate",
    tag,
    "--cleanup",
    "whitespace",
    "--message",
    `Release ${version}\n\n${notesOf(promoted, version)}`,
  );
  log(`[x] commit and tag ${tag}`);
}

/** What remains of the checklist. */
export const nextSteps = (version: string) => `
[ ] git push origin HEAD v${version}     starts the workflow: npm package, images, chart, SBOM, signatures, release notes
[ ] deploy to staging                    helm upgrade tollgate oci://ghcr.io/tollgate/charts/tollgate --version ${version} --namespace staging --atomic
[ ] smoke tests in staging               helm test tollgate --namespace staging
[ ] deploy to production                 the same with --namespace production
[ ] verify the monitoring                tollgate status --watch, dashboards, no new alerts

To undo before the push: git tag --delete v${version} && git reset --hard HEAD~1`;
