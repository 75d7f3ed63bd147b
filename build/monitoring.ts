/** `make monitoring`: writes the generated files of monitoring/. A test compares them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { monitoringFiles } from "./monitoring/files.js";
import { fromRoot } from "./paths.js";

for (const [path, text] of monitoringFiles()) {
  mkdirSync(dirname(fromRoot(path)), { recursive: true });
  writeFileSync(fromRoot(path), text);
}
