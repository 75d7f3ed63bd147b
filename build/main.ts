/** `npm run build:lua`: writes the generated Lua to `dist/lua`, or nothing at all when any part of it fails. */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { BuildError } from "./build-error.js";
import { importsOf, writeDependencies } from "./dependencies.js";
import { bundleSources, coreBundle, envoyBundle, nginxBundle } from "./lua-bundle.js";
import { fromRoot } from "./paths.js";
import { redisLibrary } from "./redis-library.js";

/** Each file is replaced in one step, so that a test that reads it meanwhile sees the old or the new one. */
function writeAll(folder: string, files: Map<string, string>): void {
  for (const [path, text] of files) {
    const target = join(folder, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(`${target}.${process.pid}`, text);
    renameSync(`${target}.${process.pid}`, target);
  }
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (/\.(lua|json|js)$/.test(path) && !files.has(path)) rmSync(join(folder, path), { force: true });
  }
}

/** For `src/store/function-library.ts`. */
function moduleOf(source: string): string {
  return `/** The Redis function library, generated from src/scripts. */\nexport const source = ${JSON.stringify(source)};\n`;
}

try {
  const library = redisLibrary();
  const files = new Map([
    ["redis/tollgate.lua", library],
    ["redis/library.js", moduleOf(library)],
    ["jit/core.lua", coreBundle()],
    ["nginx/tollgate.lua", nginxBundle()],
    ["envoy/tollgate.lua", envoyBundle()],
  ]);
  const [, ownPath = "", folder] = process.argv;
  writeAll(folder ?? fromRoot("dist/lua"), files);
  if (folder === undefined) writeDependencies("lua", [...bundleSources(), ...importsOf(ownPath)]);
  console.log(`dist/lua: ${[...files.keys()].join(", ")}`);
} catch (error) {
  if (!(error instanceof BuildError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
