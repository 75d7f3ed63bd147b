/** Writes the library package to dist/library: one bundle for `import` and one for `require`, with the types that users see. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, posix } from "node:path";
import { rolldown } from "rolldown";
import ts from "typescript";
import { fromRoot } from "../paths.js";
import { entries, libraryManifest } from "./manifest.js";

const FORMATS = { esm: "module", cjs: "commonjs" } as const;

/** Only ioredis and Node's modules stay imports. */
async function bundle(folder: string): Promise<void> {
  const input = Object.fromEntries(
    Object.entries(entries).map(([name, module]) => [name, fromRoot(`dist/${module}.js`)]),
  );
  const build = await rolldown({ input, platform: "node", external: ["ioredis", /^node:/] });
  for (const [format, type] of Object.entries(FORMATS)) {
    await build.write({
      dir: `${folder}/${format}`,
      format: format === "esm" ? "esm" : "cjs",
      entryFileNames: "[name].js",
      chunkFileNames: "[name].js",
      comments: false,
    });
    writeFileSync(`${folder}/${format}/package.json`, `${JSON.stringify({ type })}\n`);
  }
  await build.close();
}

/** The declarations that the entries need, directly or not. Paths are relative to `dist`, without an extension. */
function declarations(module: string, found = new Set<string>()): Set<string> {
  if (found.has(module)) return found;
  found.add(module);
  const text = readFileSync(fromRoot(`dist/${module}.d.ts`), "utf8");
  for (const { fileName } of ts.preProcessFile(text, true, true).importedFiles) {
    if (fileName.startsWith(".")) declarations(posix.join(posix.dirname(module), fileName.replace(/\.js$/, "")), found);
  }
  return found;
}

const folder = fromRoot("dist/library");
rmSync(folder, { recursive: true, force: true });
await bundle(folder);
const types = new Set<string>();
for (const module of Object.values(entries)) declarations(module, types);
for (const format of Object.keys(FORMATS)) {
  for (const module of types) {
    const target = `${folder}/${format}/types/${module}.d.ts`;
    mkdirSync(dirname(target), { recursive: true });
    cpSync(fromRoot(`dist/${module}.d.ts`), target);
  }
}
writeFileSync(`${folder}/package.json`, `${JSON.stringify(libraryManifest(), undefined, 2)}\n`);
cpSync(fromRoot("LICENSE"), `${folder}/LICENSE`);
cpSync(fromRoot("build/library/README.md"), `${folder}/README.md`);
console.log(`dist/library: ${Object.keys(entries).join(", ")}`);
