/** The package of the library, unpacked into an empty project: what it contains, and programs that use it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exportsIn, LIBRARY } from "../../build/library/manifest.js";
import { fromRoot } from "../../build/paths.js";
import { loadLibrary } from "../../src/store/function-library.js";
import { createProject } from "../support/packed-project.js";

const project = createProject();
let manifest: ReturnType<typeof project.install>;
beforeAll(() => {
  manifest = project.install(LIBRARY, "dist/library");
  project.link("ioredis");
});
afterAll(project.remove);

/** Prints whether three requests are allowed. */
const program = (load: string) => `
  ${load}
  async function main(): Promise<void> {
    const limiter = await createLimiter({ apps: { default: { guaranteed: 1, burst: 2 } } });
    // The limiter's timers do not keep a process alive; a server would.
    const running = setInterval(() => {}, 1_000);
    const allowed: boolean[] = [];
    for (let i = 0; i < 3; i++) allowed.push((await limiter.check("default", "GET", 0)).allowed);
    await limiter.close();
    clearInterval(running);
    console.log(JSON.stringify(allowed));
  }
  void main();`;
const IMPORT = `import { createLimiter } from "${LIBRARY}";`;

test("contains the two bundles with their types, and nothing of the service", () => {
  const names = readdirSync(project.installed(LIBRARY), { recursive: true, encoding: "utf8" });
  const top = ["LICENSE", "README.md", "cjs", "esm", "package.json"];
  expect(readdirSync(project.installed(LIBRARY)).sort()).toEqual(top);
  expect(names.filter((name) => /\.(lua|map)$|(?<!\.d)\.ts$|(^|\/)\./.test(name))).toEqual([]);
  expect(names.filter((name) => /(^|\/)(cli|config|planes|render|service|simulate)(\/|$)/.test(name))).toEqual([]);
});

test("needs ioredis and nothing else", () => {
  expect(Object.keys(manifest.dependencies!)).toEqual(["ioredis"]);
  const optional = Object.values(manifest.peerDependenciesMeta ?? {});
  expect(optional.every((one) => (one as unknown as { optional: boolean }).optional)).toBe(true);
  expect(Object.keys(manifest.peerDependenciesMeta ?? {})).toEqual(Object.keys(manifest.peerDependencies ?? {}));
});

test("every path that it exports exists, and tollgate exports the same", () => {
  const paths = JSON.stringify(manifest.exports)
    .match(/"\.\/[^"]+\.(js|ts)"/g)!
    .map((path) => JSON.parse(path));
  expect(paths.filter((path) => !existsSync(join(project.installed(LIBRARY), path)))).toEqual([]);
  const { exports } = JSON.parse(readFileSync(fromRoot("package.json"), "utf8"));
  expect(exports).toEqual(exportsIn("./dist/library"));
});

test("has the function library of the service, under the same name", () => {
  for (const format of ["esm", "cjs"]) {
    const folder = project.installed(`${LIBRARY}/${format}`);
    const texts = readdirSync(folder)
      .filter((name) => name.endsWith(".js"))
      .map((name) => readFileSync(join(folder, name), "utf8"));
    expect(texts.filter((text) => text.includes(`#!lua name=${loadLibrary().name}`))).toHaveLength(1);
  }
});

test.each([
  ["an ES module", "esm.mts", "esm.mjs", "nodenext", IMPORT],
  ["a CommonJS module", "cjs.cts", "cjs.cjs", "node16", IMPORT],
  [
    "a CommonJS module with require",
    "require.cts",
    "require.cjs",
    "node16",
    `import library = require("${LIBRARY}"); const { createLimiter } = library;`,
  ],
])("%s compiles and runs", (_, source, output, module, load) => {
  project.write(source, program(load));
  project.compile(source, "--module", module);
  expect(JSON.parse(project.run(output))).toEqual([true, true, false]);
});

test.each(["esm", "cjs"] as const)("a bundle (%s) compiles and runs", async (format) => {
  project.write("bundled.ts", program(IMPORT));
  project.compile("bundled.ts", "--noEmit", "--module", "esnext", "--moduleResolution", "bundler");
  const outfile = join(project.folder, format, format === "cjs" ? "bundle.cjs" : "bundle.mjs");
  const banner = `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`;
  await build({
    entryPoints: [join(project.folder, "bundled.ts")],
    ...{ bundle: true, platform: "node", format, outfile, logLevel: "error" },
    // ioredis is CommonJS and calls require().
    ...(format === "esm" ? { banner: { js: banner } } : {}),
  });
  expect(JSON.parse(project.run(outfile))).toEqual([true, true, false]);
});
