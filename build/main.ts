/** `npm run build:lua`: writes the generated Lua to `dist/lua`, or nothing at all when any part of it fails. */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { BuildError } from "./build-error.js";
import { coreBundle, envoyBundle, nginxBundle } from "./bundles.js";
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
    if (/\.(lua|json)$/.test(path) && !files.has(path)) rmSync(join(folder, path), { force: true });
  }
}

try {
  const files = new Map([
    ["redis/tollgate.lua", redisLibrary()],
    ["jit/core.lua", coreBundle()],
    ["nginx/tollgate.lua", nginxBundle()],
    ["envoy/tollgate.lua", envoyBundle()],
  ]);
  writeAll(process.argv[2] ?? fromRoot("dist/lua"), files);
  console.log(`dist/lua: ${[...files.keys()].join(", ")}`);
} catch (error) {
  if (!(error instanceof BuildError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
