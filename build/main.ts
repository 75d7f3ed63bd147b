/** `npm run build:lua`: writes the generated Lua to `dist/lua`, and nothing at all if any part of it has a problem. */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { catalog } from "../src/scripts/catalog.js";
import { buildArtifacts } from "./artifacts.js";
import { BuildError } from "./build-error.js";
import { fromRoot } from "./paths.js";

/** Each file is replaced in one step, so that a test that reads it meanwhile sees the old or the new one. */
function writeAll(folder: string, files: Map<string, string>): void {
  for (const [path, text] of files) {
    const target = join(folder, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(`${target}.${process.pid}`, text);
    renameSync(`${target}.${process.pid}`, target);
  }
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (path.endsWith(".lua") && !files.has(path)) rmSync(join(folder, path), { force: true });
  }
}

try {
  const files = buildArtifacts(catalog);
  writeAll(process.argv[2] ?? fromRoot("dist/lua"), files);
  console.log(
    `dist/lua: ${files.size - 4} Redis scripts, a manifest, the core for LuaJIT and the planes for nginx and Envoy`,
  );
} catch (error) {
  if (!(error instanceof BuildError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
