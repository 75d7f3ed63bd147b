/** Derives the library's package.json from the repository's. */
import { readFileSync } from "node:fs";
import { fromRoot } from "../paths.js";

export const LIBRARY = "@tollgate/limiter";

/** What users may import, and the module of each, relative to `src`. */
export const entries = {
  index: "index",
  express: "limiter/library/middleware/express",
  fastify: "limiter/library/middleware/fastify",
  hono: "limiter/library/middleware/hono",
  koa: "limiter/library/middleware/koa",
} as const;

/** Packages whose types the middleware refers to. Users of a framework have them. */
const FRAMEWORKS = {
  "@types/express": ">=4",
  "@types/koa": ">=3",
  express: ">=4",
  fastify: ">=5",
  hono: ">=4",
  koa: ">=3",
};

/** @param folder of the bundles, relative to the package.json */
export function exportsIn(folder: string) {
  const paths = Object.entries(entries).map(([name, module]) => {
    const condition = (format: string) => ({
      types: `${folder}/${format}/types/${module}.d.ts`,
      default: `${folder}/${format}/${name}.js`,
    });
    return [name === "index" ? "." : `./${name}`, { import: condition("esm"), require: condition("cjs") }];
  });
  return { ...Object.fromEntries(paths), "./package.json": "./package.json" };
}

interface Manifest {
  version: string;
  homepage: string;
  bugs: string;
  repository: object;
  license: string;
  engines: object;
  dependencies: { ioredis: string };
}

export function libraryManifest() {
  const own: Manifest = JSON.parse(readFileSync(fromRoot("package.json"), "utf8"));
  const { version, homepage, bugs, repository, license, engines } = own;
  return {
    name: LIBRARY,
    version,
    description:
      "A rate limiter for Node.js that many processes share through Redis, and that decides without asking it.",
    keywords: [
      "rate-limit",
      "rate-limiter",
      "throttling",
      "token-bucket",
      "redis",
      "valkey",
      "express",
      "fastify",
      "hono",
      "koa",
    ],
    homepage,
    bugs,
    repository,
    license,
    type: "module",
    engines,
    sideEffects: false,
    main: "./cjs/index.js",
    types: "./cjs/types/index.d.ts",
    exports: exportsIn("."),
    dependencies: { ioredis: own.dependencies.ioredis },
    peerDependencies: FRAMEWORKS,
    peerDependenciesMeta: Object.fromEntries(Object.keys(FRAMEWORKS).map((name) => [name, { optional: true }])),
  };
}
