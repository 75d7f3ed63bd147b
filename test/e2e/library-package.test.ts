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
  for (const name of ["ioredis", "express", "@types/express", "fastify", "hono", "koa", "@types/koa"])
    project.link(name);
});
afterAll(project.remove);

/** Prints whether three requests are allowed. */
const program = (load: string) => `
  ${load}
  async function main(): Promise<void> {
    const limiter = await createLimiter({ limits: [{ name: "per-user", key: ["user"], rate: "2/min" }] });
    // The limiter's timers do not keep a process alive; a server would.
    const running = setInterval(() => {}, 1_000);
    const allowed: boolean[] = [];
    for (let i = 0; i < 3; i++) allowed.push((await limiter.check({ user: "anna" })).allowed);
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

/** The extractors get what the framework declares. */
const MIDDLEWARE = `
  import { createServer } from "node:http";
  import { limit, type LibraryLimiter } from "${LIBRARY}";
  import { limit as expressLimit } from "${LIBRARY}/express";
  import { limitPlugin } from "${LIBRARY}/fastify";
  import { limit as honoLimit } from "${LIBRARY}/hono";
  import { limit as koaLimit } from "${LIBRARY}/koa";
  import express = require("express");
  import fastify from "fastify";
  import { Hono } from "hono";
  import Koa = require("koa");
  interface AppEnv { Variables: { team: string } }
  export function servers(limiter: LibraryLimiter): void {
    const check = limit({ limiter, app: (request) => request.socket.remoteAddress });
    createServer((request, response) => check(request, response, () => response.end("hello")));
    express().use(expressLimit({ limiter, app: (request) => request.get("x-app"), ip: (request) => request.ip }));
    void fastify().register(limitPlugin, { limiter, app: (request) => request.routeOptions.url });
    new Hono<AppEnv>().use(honoLimit<AppEnv>({ limiter, app: (context) => context.get("team") }));
    new Koa<{ team: string }>().use(koaLimit({ limiter, app: (context) => context.state.team, ip: (context) => context.ip }));
  }`;

const REQUIRE = `import library = require("${LIBRARY}"); const { createLimiter } = library;`;
const asModule = (text: string) => text.replace(/import (\w+) = require\((.*)\)/g, "import $1 from $2");

test.each([
  ["ES modules compile and run", "nodenext", { "esm.mts": IMPORT }, { "middleware.mts": asModule(MIDDLEWARE) }],
  [
    "CommonJS modules compile and run",
    "node16",
    { "cjs.cts": IMPORT, "require.cts": REQUIRE },
    { "middleware.cts": MIDDLEWARE },
  ],
])("%s", (_, module, programs, others) => {
  for (const [file, load] of Object.entries(programs)) project.write(file, program(load));
  for (const [file, text] of Object.entries(others)) project.write(file, text);
  // The types of the frameworks themselves need not be free of errors.
  project.compile("--skipLibCheck", "--module", module, ...Object.keys({ ...programs, ...others }));
  for (const file of Object.keys(programs)) {
    expect(JSON.parse(project.run(file.replace(/ts$/, "js")))).toEqual([true, true, false]);
  }
});

test("the middleware of all frameworks loads without them", () => {
  const names = Object.keys(exportsIn("")).flatMap((path) => /^\.\/([a-z]+)$/.exec(path)?.[1] ?? []);
  for (const name of names) {
    const path = `${LIBRARY}/${name}`;
    const expected = name === "fastify" ? "limitPlugin\n" : "limit\n";
    expect(project.run("-p", `Object.keys(require("${path}")).join()`)).toBe(expected);
    expect(project.run("--input-type=module", "-e", `console.log(Object.keys(await import("${path}")).join())`)).toBe(
      expected,
    );
  }
  expect(names).toEqual(["express", "fastify", "hono", "koa"]);
});

test("every ts block of the pages compiles", () => {
  const folders = ["docs", "examples", "build/library"];
  const pages = folders.flatMap((folder) =>
    readdirSync(fromRoot(folder), { recursive: true, encoding: "utf8" }).map((path) => `${folder}/${path}`),
  );
  const files: string[] = [];
  // The reference is generated from the types.
  for (const page of ["README.md", ...pages].filter(
    (path) => path.endsWith(".md") && path !== "docs/reference/library.md",
  )) {
    const blocks = [...readFileSync(fromRoot(page), "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)];
    for (const [i, [, text = ""]] of blocks.entries()) {
      const file = `${page.replaceAll("/", "-")}.${i + 1}.mts`;
      project.write(file, `${text}export {};\n`);
      files.push(file);
    }
  }
  expect(files.length).toBeGreaterThan(9);
  project.compile("--noEmit", "--skipLibCheck", "--module", "nodenext", ...files);
});

test("a program compiles for a bundler, without errors in the types of the library", () => {
  project.write("bundled.ts", program(IMPORT));
  project.compile("--noEmit", "--module", "esnext", "--moduleResolution", "bundler", "bundled.ts");
});

test.each(["esm", "cjs"] as const)("a bundle (%s) runs", async (format) => {
  project.write("bundled.ts", program(IMPORT));
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
