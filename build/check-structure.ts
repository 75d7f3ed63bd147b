/** `npm run check`: every import in src/ follows the dependency rules below, and no files import each other in a cycle. */
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { pathToFileURL } from "node:url";
import ts from "typescript";
import { fromRoot } from "./paths.js";

/** Top first. A module may import itself and the modules below it; modules on one line may not import each other. */
const LAYERS = [
  ["cli"],
  ["service/process"],
  ["service/control"],
  ["service/dashboard"],
  ["service/operations"],
  ["service/telemetry"],
  ["service/metrics"],
  ["simulate"],
  ["envoy-service"],
  ["planes/node", "planes/nginx", "planes/envoy"],
  ["planes/lua"],
  ["render"],
  ["config"],
  ["limiter"],
  ["quota", "slots"],
  ["store"],
  ["scripts"],
  ["engine"],
  ["limit-rules"],
  ["core"],
  ["shared"],
];

const MODULES = LAYERS.flat();
const rankOf = (module: string) => LAYERS.findIndex((layer) => layer.includes(module));

/** The entry of the npm package. It may import only what its users need. */
const ENTRY = "index.ts";
const ENTRY_IMPORTS = ["limiter", "store", "core", "shared"];

/** Paths relative to src/, and what is in the files. */
export type Sources = Map<string, string>;

interface Import {
  from: string;
  to: string;
  line: number;
}

export function structureProblems(sources: Sources): string[] {
  const imports = [...sources].flatMap(([path, text]) => importsOf(path, text));
  const unplaced = [...sources.keys()]
    .filter((path) => moduleOf(path) === undefined)
    .map((path) => `src/${path}: belongs to no module; list its folder in LAYERS of build/check-structure.ts`);
  const forbidden = imports.flatMap((one) => {
    const rule = brokenRule(one);
    return rule === undefined ? [] : [`src/${one.from}:${one.line}: imports src/${one.to}, but ${rule}`];
  });
  const cyclic = cycles(imports).map((cycle) => `src/${cycle[0]}: import cycle ${cycle.join(" → ")}`);
  return [...unplaced, ...forbidden, ...cyclic];
}

function moduleOf(path: string): string | undefined {
  return path === ENTRY ? ENTRY : MODULES.find((module) => path.startsWith(`${module}/`));
}

function brokenRule({ from, to }: Import): string | undefined {
  const importer = moduleOf(from);
  const imported = moduleOf(to);
  if (importer === undefined || imported === undefined || importer === imported) return undefined;
  if (importer === ENTRY) {
    return ENTRY_IMPORTS.includes(imported) ? undefined : `${ENTRY} may import only ${ENTRY_IMPORTS.join(", ")}`;
  }
  if (importer === "planes/node" && imported === "planes/lua") return "planes/lua is only for nginx and Envoy";
  if (imported === ENTRY || rankOf(importer) > rankOf(imported)) return `${importer} is below ${imported}`;
  return rankOf(importer) === rankOf(imported) ? `${importer} and ${imported} may not import each other` : undefined;
}

/** All imports of other source files: values, types, re-exports and `import()`. */
function importsOf(from: string, text: string): Import[] {
  return ts.preProcessFile(text, true, true).importedFiles.flatMap(({ fileName, pos }) => {
    if (!fileName.startsWith(".")) return [];
    const to = posix.join(posix.dirname(from), fileName.replace(/\.js$/, ".ts"));
    return [{ from, to, line: text.slice(0, pos).split("\n").length }];
  });
}

/** One shortest cycle through the first file of each group of files that reach each other. */
function cycles(imports: Import[]): string[][] {
  const targets = new Map<string, string[]>();
  for (const { from, to } of imports) targets.set(from, [...(targets.get(from) ?? []), to]);
  const found: string[][] = [];
  for (const file of [...targets.keys()].sort()) {
    const cycle = found.flat().includes(file) ? undefined : shortestWayBack(file, targets);
    if (cycle !== undefined) found.push(cycle);
  }
  return found;
}

function shortestWayBack(start: string, targets: Map<string, string[]>): string[] | undefined {
  const seen = new Set<string>();
  const ways = [[start]];
  for (const way of ways) {
    for (const to of targets.get(way.at(-1)!) ?? []) {
      if (to === start) return [...way, start];
      if (!seen.has(to)) ways.push([...way, to]);
      seen.add(to);
    }
  }
  return undefined;
}

function sourcesInTree(): Sources {
  const paths = readdirSync(fromRoot("src"), { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".ts"),
  );
  return new Map(paths.sort().map((path) => [path, readFileSync(fromRoot(`src/${path}`), "utf8")]));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const problems = structureProblems(sourcesInTree());
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
