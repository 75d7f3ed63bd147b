/** `make deploy-files`: writes all deployment files that are derived from the values of the Helm chart. `--check` only compares. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { DERIVED_FOLDERS, deployFiles } from "./deploy/files.js";
import { fromRoot } from "./paths.js";

const files = deployFiles();
const isCheck = process.argv.includes("--check");
const stale = [...files].filter(
  ([path, text]) => !existsSync(fromRoot(path)) || readFileSync(fromRoot(path), "utf8") !== text,
);
const extra = DERIVED_FOLDERS.flatMap((folder) =>
  existsSync(fromRoot(folder)) ? readdirSync(fromRoot(folder)).map((name) => `${folder}/${name}`) : [],
).filter((path) => !files.has(path));

if (isCheck) {
  for (const path of [...stale.map(([name]) => name), ...extra])
    console.error(`${path} is stale: run \`make deploy-files\``);
  if (stale.length + extra.length > 0) process.exitCode = 1;
} else {
  for (const [path, text] of stale) {
    mkdirSync(dirname(fromRoot(path)), { recursive: true });
    writeFileSync(fromRoot(path), text);
    console.log(path);
  }
  for (const path of extra) {
    rmSync(fromRoot(path));
    console.log(`removed ${path}`);
  }
}
