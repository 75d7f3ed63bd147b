/** `make deploy-files`: writes all deployment files that are derived from the values of the Helm chart. `--check` only compares. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { compareFiles, deployFiles } from "./deploy/files.js";
import { fromRoot } from "./paths.js";

const files = deployFiles();
const { stale, extra } = compareFiles(files);

if (process.argv.includes("--check")) {
  for (const path of [...stale, ...extra]) console.error(`${path} is stale: run \`make deploy-files\``);
  if (stale.length + extra.length > 0) process.exitCode = 1;
} else {
  for (const path of stale) {
    mkdirSync(dirname(fromRoot(path)), { recursive: true });
    writeFileSync(fromRoot(path), files.get(path)!);
    console.log(path);
  }
  for (const path of extra) {
    rmSync(fromRoot(path));
    console.log(`removed ${path}`);
  }
}
