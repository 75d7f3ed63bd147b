/** `make release VERSION=1.2.3` and `make release-files TAG=v1.2.3`. */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { CHART, packageVersion } from "./deploy/values.js";
import { fromRoot } from "./paths.js";
import { notesOf } from "./release/changelog.js";
import { nextSteps, prepareRelease } from "./release/prepare.js";

const [command, argument = ""] = process.argv.slice(2);
const run = (program: string, ...args: string[]) =>
  execFileSync(program, args, { cwd: fromRoot("."), stdio: "inherit" });

/** Everything that is attached to a release, in .cache/release. */
function releaseFiles(tag: string): void {
  if (tag !== `v${packageVersion()}`) throw new Error(`the tag is ${tag}, but package.json has ${packageVersion()}`);
  const folder = fromRoot(".cache/release");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(`${folder}/chart`, { recursive: true });
  writeFileSync(`${folder}/notes.md`, `${notesOf(readFileSync(fromRoot("CHANGELOG.md"), "utf8"), tag.slice(1))}\n`);
  run("build/sbom.sh", `${folder}/sbom.cdx.json`, `${folder}/sbom-limiter.cdx.json`);
  run("npm", "pack", "--pack-destination", folder);
  run("npm", "pack", "./dist/library", "--pack-destination", folder);
  run(".cache/deploy/helm/bin/helm", "package", CHART, "--destination", `${folder}/chart`);
  for (const machine of ["amd64", "arm64"]) {
    run("build/envoy-module.sh", machine);
    copyFileSync(fromRoot(`.cache/envoy-module/${machine}/libtollgate.so`), `${folder}/libtollgate-${machine}.so`);
  }
  console.log(readdirSync(folder, { recursive: true }).join("\n"));
}

try {
  if (command === "files") releaseFiles(argument);
  else {
    prepareRelease({
      version: argument,
      root: fromRoot("."),
      date: new Date().toISOString().slice(0, 10),
      checks: [
        ["make", "check"],
        ["node_modules/.bin/tsx", "build/deploy-files.ts", "--check"],
        ["env", "TOLLGATE_DEPLOY=all", ".ci/run"],
      ],
      derive: [["node_modules/.bin/tsx", "build/deploy-files.ts"]],
      log: console.log,
    });
    console.log(nextSteps(argument));
  }
} catch (error) {
  console.error(`release: ${(error as Error).message}`);
  process.exitCode = 1;
}
