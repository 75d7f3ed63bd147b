/** Reads a configuration: defaults < file < environment. Either all of it is right, or every problem is named. */
import { readFileSync, statSync } from "node:fs";
import { type Document, isScalar, LineCounter, parseDocument, visit } from "yaml";
import { type Problem, problemAt, problemsOf, quoted, shownPath } from "./problem.js";
import { relationProblems } from "./relations.js";
import { type Config, sections } from "./schema.js";
import { unknownName } from "./values.js";
import { type Environment, expand, isSection, override } from "./variables.js";

export type Loaded = { config: Config; problems: [] } | { config: undefined; problems: Problem[] };

export interface LoadOptions {
  /** The path of a YAML file; without it the defaults hold. */
  file?: string | undefined;
  env: Environment;
}

const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** Sections with names of the operator's own, and how many names each may have. */
const mostNames: Record<string, number> = { apps: 100_000, upstreams: 10_000 };
/** More than anyone reads at once. */
const MOST_PROBLEMS = 100;

export function loadConfig({ file, env }: LoadOptions): Loaded {
  if (file === undefined) return readConfig("", env);
  const refused = (reason: string): Loaded => ({ config: undefined, problems: [{ path: file, value: "", reason }] });
  try {
    const { size } = statSync(file);
    if (size > MAX_FILE_BYTES) return refused(`the file has ${size} bytes; at most ${MAX_FILE_BYTES} are read`);
    return readConfig(readFileSync(file, "utf8"), env);
  } catch (error) {
    return refused(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The same from the text of a file. */
export function readConfig(yaml: string, env: Environment): Loaded {
  const { raw, problems } = parse(yaml);
  if (problems.length > 0) return refusal(problems);
  if (!isSection(raw)) {
    return refusal([{ path: "the file", value: "", reason: "must be options with values, like listen: 0.0.0.0:8080" }]);
  }
  const crowded = Object.entries(mostNames).filter(([name, most]) => countNames(raw[name]) > most);
  if (crowded.length > 0) {
    return refusal(
      crowded.map(([name, most]) =>
        problemAt([name], raw, `must have at most ${most} names, not ${countNames(raw[name])}`),
      ),
    );
  }
  return check(raw, env);
}

function check(raw: Record<string, unknown>, env: Environment): Loaded {
  const expanded = expand(raw, env);
  const values = expanded.value as Record<string, unknown>;
  const { origin, problems: wrongVariables } = override(values, env);
  const found = [...expanded.problems, ...wrongVariables];
  const config: Record<string, unknown> = {};
  for (const name of Object.keys(values)) {
    if (Object.hasOwn(sections, name)) continue;
    found.push({ path: shownPath([name]), value: "", reason: unknownName(name, Object.keys(sections)) });
  }
  for (const [name, kind] of Object.entries(sections)) {
    const result = kind.safeParse(values[name]);
    if (result.success) config[name] = result.data;
    else found.push(...problemsOf(result.error.issues, name, raw));
  }
  found.push(...relationProblems(config as Partial<Config>, raw));
  if (found.length > 0) return refusal(found.map((problem) => fromVariable(problem, origin, env)));
  return { config: deepFreeze(config as Config), problems: [] };
}

/** A value that an environment variable set is wrong there, not in the file. */
function fromVariable(problem: Problem, origin: Map<string, string>, env: Environment): Problem {
  const variable = origin.get(problem.path);
  if (variable === undefined) return problem;
  return { path: variable, value: quoted(env[variable] ?? ""), reason: problem.reason };
}

/** Each place once, with what was found out about it first. */
function refusal(problems: Problem[]): Loaded {
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

function parse(yaml: string): { raw: unknown; problems: Problem[] } {
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

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const item of Object.values(value)) deepFreeze(item);
  }
  return value;
}
