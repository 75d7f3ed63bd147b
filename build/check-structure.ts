/**
 * `npm run check`: every folder of src/ is listed below, every import follows these rules, no files import each other in a
 * cycle, and names of keys in the store are built in one file.
 */
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { pathToFileURL } from "node:url";
import ts from "typescript";
import { CONNECTIONS_PREFIX, LIMITS_PREFIX } from "../src/core/keys.js";
import { fromRoot } from "./paths.js";

/**
 * Top first. Each module is a folder, with those of its subfolders that belong to it. A module may import itself and the
 * modules below it; modules on one line may not import each other.
 */
export const LAYERS: Readonly<Record<string, readonly string[]>>[] = [
  { cli: ["certs", "control", "import", "render", "simulate", "status"] },
  { "service/process": [] },
  { "service/control": ["access"], "service/control/plane-api": [] },
  { "service/dashboard": [] },
  { "service/operations": [] },
  { "service/operations/contract": [], "service/metrics/push": [], "service/telemetry": [] },
  { "service/metrics": [] },
  { simulate: [] },
  { "envoy-service": ["grpc", "rate-limit"] },
  {
    "planes/node": ["http", "http2", "identity", "upgrade"],
    "planes/nginx": ["http", "sockets"],
    "planes/envoy": ["main-thread", "module", "worker"],
  },
  { "planes/node/upstream": [], "planes/lua/sockets": [] },
  { "planes/lua": ["http"] },
  { "render/envoy": [], "render/nginx": [] },
  { render: [] },
  { "config/live": [] },
  { config: ["options", "sections"] },
  { "limiter/descriptors": [], "limiter/library": ["middleware"] },
  { limiter: ["limits"] },
  { quota: [], slots: [] },
  { store: ["embedded", "ipc", "redis"] },
  { scripts: ["common"] },
  { engine: [], "engine/slots": [] },
  { "limit-rules": [] },
  { core: [] },
  { "shared/access": [], "shared/tls": [] },
  { shared: [] },
];

interface Module {
  name: string;
  /** The smaller, the higher. */
  rank: number;
}

const MODULES: ReadonlyMap<string, Module> = new Map(
  LAYERS.flatMap((layer, rank) =>
    Object.entries(layer).flatMap(([name, subfolders]) =>
      [name, ...subfolders.map((folder) => `${name}/${folder}`)].map((folder) => [folder, { name, rank }] as const),
    ),
  ),
);

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
  const folders = new Set([...sources.keys()].filter((path) => path !== ENTRY).map(posix.dirname));
  const unlisted = [...folders]
    .filter((folder) => !MODULES.has(folder))
    .map((folder) => `src/${folder}: is not in LAYERS of build/check-structure.ts; list it with what it may import`);
  const forbidden = imports.flatMap((one) => {
    const rule = brokenRule(one);
    return rule === undefined ? [] : [`src/${one.from}:${one.line}: imports src/${one.to}, but ${rule}`];
  });
  const cyclic = cycles(imports).map((cycle) => `src/${cycle[0]}: import cycle ${cycle.join(" → ")}`);
  return [...unlisted, ...forbidden, ...cyclic, ...keyNames(sources)];
}

function brokenRule({ from, to }: Import): string | undefined {
  const importer = MODULES.get(posix.dirname(from));
  const imported = MODULES.get(posix.dirname(to));
  if (from === ENTRY) {
    const isAllowed = imported === undefined || ENTRY_IMPORTS.some((name) => to.startsWith(`${name}/`));
    return isAllowed ? undefined : `${ENTRY} may import only ${ENTRY_IMPORTS.join(", ")}`;
  }
  if (importer === undefined) return undefined;
  if (to === ENTRY) return `${importer.name} is below ${ENTRY}`;
  if (imported === undefined || importer.name === imported.name) return undefined;
  const isOfNode = importer.name.startsWith("planes/node");
  if (isOfNode && imported.name.startsWith("planes/lua")) return "planes/lua is only for nginx and Envoy";
  if (importer.rank > imported.rank) return `${importer.name} is below ${imported.name}`;
  return importer.rank === imported.rank
    ? `${importer.name} and ${imported.name} may not import each other`
    : undefined;
}

const KEY_NAMES = "core/keys.ts";
/** A prefix of keys at the start of a text or of a word in it. URLs such as `ws://host` are none. */
const KEY_PREFIX = new RegExp(`(?<!\\w)(${LIMITS_PREFIX}|${CONNECTIONS_PREFIX})(?!//|\\s)`);

/** Texts that name keys or channels of the store, in other files than the one that builds the names. */
function keyNames(sources: Sources): string[] {
  const files = [...sources].filter(([path, text]) => path !== KEY_NAMES && KEY_PREFIX.test(text));
  return files.flatMap(([path, text]) => {
    const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const found: string[] = [];
    const visit = (node: ts.Node): void => {
      if (
        (ts.isLiteralExpression(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node)) &&
        KEY_PREFIX.test(node.text)
      ) {
        const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1;
        found.push(`src/${path}:${line}: has the prefix of a key; names of keys are built in src/${KEY_NAMES}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
    return found;
  });
}

/** All imports of other source files: values, types, re-exports and `import()`. */
function importsOf(from: string, text: string): Import[] {
  if (!from.endsWith(".ts")) return [];
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
  const ways = [{ way: [start], last: start }];
  for (const { way, last } of ways) {
    for (const to of targets.get(last) ?? []) {
      if (to === start) return [...way, start];
      if (!seen.has(to)) ways.push({ way: [...way, to], last: to });
      seen.add(to);
    }
  }
  return undefined;
}

function sourcesInTree(): Sources {
  const files = readdirSync(fromRoot("src"), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = files.map(({ parentPath, name }) => posix.relative(fromRoot("src"), `${parentPath}/${name}`)).sort();
  return new Map(paths.map((path) => [path, readFileSync(fromRoot(`src/${path}`), "utf8")]));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const problems = structureProblems(sourcesInTree());
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
