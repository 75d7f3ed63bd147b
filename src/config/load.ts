/** Loads a configuration (defaults < file < store < environment) and validates it. Reports all problems at once. */
import { readFileSync, statSync } from "node:fs";
import { type Document, isScalar, LineCounter, parseDocument, visit } from "yaml";
import { shareEqualApps } from "./equal-apps.js";
import { inLayer, isFromStoreLayer, layerProblems, merge } from "./layer.js";
import { unknownName } from "./nearest.js";
import { namedAt, type PlacedProblem, type Problem, problemAt, problemsOf, quoted } from "./problem.js";
import { relationProblems } from "./relations.js";
import { type Config, sections } from "./schema.js";
import { type Environment, expand, isSection, override, type Section } from "./variables.js";

export type Loaded = { config: Config; problems: [] } | { config: undefined; problems: Problem[] };

export interface LoadOptions {
  /** Path of a YAML file. Default: all defaults. */
  file?: string | undefined;
  env: Environment;
}

export const MAX_CONFIG_BYTES = 16 * 1024 * 1024;
/** Maximum number of entries of sections with free names. */
const mostNames: Record<string, number> = { apps: 100_000, upstreams: 10_000 };
/** Further problems are counted only. */
const MOST_PROBLEMS = 100;

export function loadConfig({ file, env }: LoadOptions): Loaded {
  if (file === undefined) return readConfig("", env);
  const { text, problems } = readText(file);
  return text === undefined ? { config: undefined, problems } : readConfig(text, env);
}

/** The content of a file, or why it cannot be read. */
export function readText(file: string): { text: string; problems: [] } | { text: undefined; problems: Problem[] } {
  const refused = (reason: string) => ({ text: undefined, problems: [{ path: file, value: "", reason }] });
  try {
    const { size } = statSync(file);
    if (size > MAX_CONFIG_BYTES) return refused(`the file has ${size} bytes; the maximum is ${MAX_CONFIG_BYTES}`);
    const text = readFileSync(file, "utf8");
    // It would be valid and mean all defaults, but is probably still being written. With a comment it is on purpose.
    return hasOptions(text) || text.includes("#") ? { text, problems: [] } : refused("is empty");
  } catch (error) {
    return refused(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Whether a text has more than comments and the marks of an empty document. */
export function hasOptions(text: string): boolean {
  return text.split("\n").some((line) => !/^[\s\ufeff\0]*(?:#.*|---|\.\.\.|\{\s*\}|null|~)?\s*$/.test(line));
}

/** The same with the content of a file and a store layer. */
export function readConfig(yaml: string, env: Environment, layer: Section = {}): Loaded {
  return checkConfig(parseYaml(yaml), env, layer);
}

export interface ParsedYaml {
  raw: unknown;
  problems: Problem[];
}

function checkConfig({ raw: file, problems }: ParsedYaml, env: Environment, layer: Section): Loaded {
  if (problems.length > 0) return refusal(problems);
  if (!isSection(file)) {
    const reason = "must be a map of options, for example listen: 0.0.0.0:8080";
    return refusal([{ path: "the file", value: "", reason }]);
  }
  const wrongLayer = layerProblems(layer);
  if (wrongLayer.length > 0) return refusal(wrongLayer);
  /** Before variables are replaced, for messages. */
  const raw = merge(file, layer) as Section;
  const crowded = Object.entries(mostNames).filter(([name, most]) => countNames(raw[name]) > most);
  if (crowded.length > 0) {
    const reason = (name: string, most: number) => `must have at most ${most} names, not ${countNames(raw[name])}`;
    return refusal(crowded.map(([name, most]) => problemAt([name], raw, reason(name, most))));
  }
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
  if (found.length === 0) {
    const valid = config as Config;
    valid.apps = shareEqualApps(valid.apps);
    return { config: deepFreeze(valid), problems: [] };
  }
  return refusal(
    found.map(({ path, value, reason, place = [] }) => {
      const variable = origin.get(path);
      if (variable !== undefined) return { path: variable, value: quoted(env[variable] ?? ""), reason };
      const problem = { path, value, reason };
      return isFromStoreLayer(place, file, layer) ? inLayer(problem) : problem;
    }),
  );
}

/** One problem per path: the first. */
function refusal(problems: Problem[]): Loaded & { config: undefined } {
  const byPath = new Map<string, Problem>();
  for (const problem of problems) if (!byPath.has(problem.path)) byPath.set(problem.path, problem);
  const once = [...byPath.values()];
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
    for (const at of repeatedNames(document)) problems.push(complaint(at, "this name occurs twice"));
    if (problems.length > 0) return { raw: undefined, problems };
    return { raw: document.toJS({ maxAliasCount: 100 }) ?? {}, problems };
  } catch (error) {
    // Nested too deeply, or aliases of aliases.
    const reason = error instanceof RangeError ? "is nested too deeply" : "has too many aliases";
    return { raw: undefined, problems: [{ path: "the file", value: "", reason }] };
  }
}

/** Positions of repeated names. The check of the parser is quadratic and takes minutes for large files. */
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

/** Removes quotes from the parser's message: they may contain a secret. */
function plainSentence(message: string): string {
  return message
    .replace(/\n.*/s, "")
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
