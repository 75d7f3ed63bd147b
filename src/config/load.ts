/** Reads a configuration: defaults < file < store < environment. Either all of it is right, or every problem is named. */
import { readFileSync, statSync } from "node:fs";
import { type Document, isScalar, LineCounter, parseDocument, visit } from "yaml";
import { inLayer, layerProblems, merge, saidByLayer } from "./layer.js";
import { namedAt, type PlacedProblem, type Problem, problemAt, problemsOf, quoted } from "./problem.js";
import { relationProblems } from "./relations.js";
import { type Config, sections } from "./schema.js";
import { unknownName } from "./values.js";
import { type Environment, expand, isSection, override, type Section } from "./variables.js";

export type Loaded = { config: Config; problems: [] } | { config: undefined; problems: Problem[] };

export interface LoadOptions {
  /** The path of a YAML file; without it the defaults hold. */
  file?: string | undefined;
  env: Environment;
}

export const MAX_CONFIG_BYTES = 16 * 1024 * 1024;
/** Sections with names of the operator's own, and how many names each may have. */
const mostNames: Record<string, number> = { apps: 100_000, upstreams: 10_000 };
/** More than anyone reads at once. */
const MOST_PROBLEMS = 100;

export function loadConfig({ file, env }: LoadOptions): Loaded {
  if (file === undefined) return readConfig("", env);
  const { text, problems } = readText(file);
  return text === undefined ? { config: undefined, problems } : readConfig(text, env);
}

/** The text of a file, or why it cannot be read. */
export function readText(file: string): { text: string; problems: [] } | { text: undefined; problems: Problem[] } {
  const refused = (reason: string) => ({ text: undefined, problems: [{ path: file, value: "", reason }] });
  try {
    const { size } = statSync(file);
    if (size > MAX_CONFIG_BYTES) return refused(`the file has ${size} bytes; at most ${MAX_CONFIG_BYTES} are read`);
    return { text: readFileSync(file, "utf8"), problems: [] };
  } catch (error) {
    return refused(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The same from the text of a file, and with what the store says. */
export function readConfig(yaml: string, env: Environment, layer: Section = {}): Loaded {
  return checkConfig(parseYaml(yaml), env, layer);
}

/** A file as it was written. Nobody changes it: it may be kept, as reading it is most of the work. */
export interface ParsedYaml {
  raw: unknown;
  problems: Problem[];
}

export function checkConfig({ raw: file, problems }: ParsedYaml, env: Environment, layer: Section): Loaded {
  if (problems.length > 0) return refusal(problems);
  if (!isSection(file)) {
    return refusal([{ path: "the file", value: "", reason: "must be options with values, like listen: 0.0.0.0:8080" }]);
  }
  const wrongLayer = layerProblems(layer);
  if (wrongLayer.length > 0) return refusal(wrongLayer);
  const raw = merge(file, layer) as Section;
  const crowded = Object.entries(mostNames).filter(([name, most]) => countNames(raw[name]) > most);
  if (crowded.length > 0) {
    return refusal(
      crowded.map(([name, most]) =>
        problemAt([name], raw, `must have at most ${most} names, not ${countNames(raw[name])}`),
      ),
    );
  }
  return check({ file, layer, raw }, env);
}

interface Written {
  file: Section;
  layer: Section;
  /** Both together, as written, for messages. */
  raw: Section;
}

function check({ file, layer, raw }: Written, env: Environment): Loaded {
  const expanded = expand(file, env);
  const values = merge(expanded.value, layer) as Section;
  const { origin, problems: wrongVariables } = override(values, env);
  const found: PlacedProblem[] = [...expanded.problems, ...wrongVariables];
  const config: Section = {};
  for (const name of Object.keys(values)) {
    if (Object.hasOwn(sections, name)) continue;
    found.push(namedAt([name], raw, unknownName(name, Object.keys(sections))));
  }
  for (const [name, kind] of Object.entries(sections)) {
    const result = kind.safeParse(values[name]);
    if (result.success) config[name] = result.data;
    else found.push(...problemsOf(result.error.issues, name, raw));
  }
  found.push(...relationProblems(config as Partial<Config>, raw));
  if (found.length === 0) return { config: deepFreeze(config as Config), problems: [] };
  return refusal(
    found.map(({ path, value, reason, place = [] }) => {
      const problem = { path, value, reason };
      const variable = origin.get(path);
      if (variable !== undefined) return fromVariable(problem, variable, env);
      return saidByLayer(place, file, layer) ? inLayer(problem) : problem;
    }),
  );
}

/** A value that an environment variable set is wrong there, not in the file. */
function fromVariable({ reason }: Problem, variable: string, env: Environment): Problem {
  return { path: variable, value: quoted(env[variable] ?? ""), reason };
}

/** Each place once, with what was found out about it first. */
function refusal(problems: Problem[]): Loaded & { config: undefined } {
  const seen = new Set<string>();
  const once = problems.filter(({ path }) => {
    const isNew = !seen.has(path);
    seen.add(path);
    return isNew;
  });
  const shown = once.slice(0, MOST_PROBLEMS);
  if (once.length > shown.length) {
    shown.push({ path: "…", value: "", reason: `and ${once.length - shown.length} more` });
  }
  return { config: undefined, problems: shown };
}

export function parseYaml(yaml: string): ParsedYaml {
  const lines = new LineCounter();
  try {
    const document = parseDocument(yaml, { lineCounter: lines, prettyErrors: false, uniqueKeys: false });
    const complaint = (at: number, reason: string): Problem => {
      const { line, col } = lines.linePos(at);
      return { path: `line ${line}, column ${col}`, value: "", reason };
    };
    const problems = document.errors.map(({ pos, message }) => complaint(pos[0], plainSentence(message)));
    for (const at of repeatedNames(document)) problems.push(complaint(at, "this name is given twice"));
    if (problems.length > 0) return { raw: undefined, problems };
    return { raw: document.toJS({ maxAliasCount: 100 }) ?? {}, problems };
  } catch (error) {
    // Nested too deeply, or aliases of aliases: nothing that a person writes.
    const reason = error instanceof RangeError ? "is nested too deeply" : "has too many aliases";
    return { raw: undefined, problems: [{ path: "the file", value: "", reason }] };
  }
}

/** Where names stand for the second time. The parser's own search compares each with each, which takes minutes. */
function repeatedNames(document: Document): number[] {
  const places: number[] = [];
  visit(document, {
    Map(_, map) {
      const seen = new Set<string>();
      for (const { key } of map.items) {
        if (!isScalar(key)) continue;
        const name = String(key.value);
        if (seen.has(name)) places.push(key.range?.[0] ?? 0);
        seen.add(name);
      }
    },
  });
  return places;
}

/** The parser's message may quote the file, which may hold a secret: what it quotes is left out. */
function plainSentence(message: string): string {
  return message
    .split("\n")[0]!
    .replace(/: .*$/, "")
    .replace(/["'`].*["'`]/g, "…");
}

function countNames(value: unknown): number {
  return isSection(value) ? Object.keys(value).length : 0;
}

export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const item of Object.values(value)) deepFreeze(item);
  }
  return value;
}
