/** `make deploy-files`: writes all deployment files that are derived from the values of the Helm chart. `--check` only compares. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { chartFiles, compareFiles, deployFiles, type Files } from "./deploy/files.js";
import { fromRoot } from "./paths.js";

const isCheck = process.argv.includes("--check");
// Helm renders the manifests from the chart's own copies, so these are written first.
if (!isCheck) writeStale(chartFiles());
const files = deployFiles();
const { stale, extra } = compareFiles(files);

if (isCheck) {
  for (const path of [...stale, ...extra]) console.error(`${path} is stale: run \`make deploy-files\``);
  if (stale.length + extra.length > 0) process.exitCode = 1;
} else {
  writeStale(files);
  for (const path of extra) {
    rmSync(fromRoot(path));
    console.log(`removed ${path}`);
  }
}

function writeStale(derived: Files): void {
  const { stale } = compareFiles(derived);
  for (const [path, text] of derived) {
    if (!stale.includes(path)) continue;
    mkdirSync(dirname(fromRoot(path)), { recursive: true });
    writeFileSync(fromRoot(path), text);
    console.log(path);
  }
}
