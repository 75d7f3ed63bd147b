/** Every file, name, command, option and endpoint in the pages for contributors exists, where the page says that it does. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { commandGroups } from "../../src/cli/command-list.js";
import { optionSchema } from "../../src/config/json-schema.js";

const PAGES = ["docs/MAP.md", "docs/GLOSSARY.md", "docs/PROTOCOL.md", "CONTRIBUTING.md"];
/** Has names that do not exist. */
const OWN = "test/unit/docs-names.test.ts";
const NOT_SOURCES = new Set(["node_modules", "dist", "coverage", ".git", ".cache"]);

function pathsBelow(folder: string): string[] {
  return readdirSync(fromRoot(folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (NOT_SOURCES.has(entry.name)) return [];
    return entry.isDirectory() ? [path, ...pathsBelow(path)] : [path];
  });
}

const paths = pathsBelow(".");
const read = (path: string) => readFileSync(fromRoot(path), "utf8");
const sources = new Map(
  [...paths.filter((path) => /\.(tsx?|[ch]|sh)$/.test(path) && path !== OWN), "Makefile", "package.json"].map(
    (path) => [path, read(path)],
  ),
);
const allSources = [...sources.values()].join("\n");
const commands = commandGroups.flatMap((group) => group.commands.map(({ name }) => name));
const options = optionPaths(optionSchema(), "");

/** `.control.listen` and the like, for every option. */
function optionPaths(schema: unknown, at: string): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  return Object.entries(schema).flatMap(([key, inner]) => {
    if (key !== "properties") return optionPaths(inner, at);
    return Object.entries(inner as object).flatMap(([name, own]) => [
      `${at}.${name}`,
      ...optionPaths(own, `${at}.${name}`),
    ]);
  });
}

/** A text in backticks, and what is between the one before and this one. */
interface Span {
  text: string;
  before: string;
}

interface Section {
  /** The folder in which its paths begin, besides the root and `src`. */
  base: string;
  spans: Span[];
}

/** Relative paths continue a path that the same section has named: a cell of a table, or the text below a heading. */
function sectionsOf(page: string, text: string): Section[] {
  const sections = text.replace(/^```.*\n(.*?)^```/gms, commandsOf).split(/^(?=#|\*\*|\| )/m);
  return sections.flatMap((section) => {
    const cells = section.startsWith("| ") ? section.split(" | ") : [section];
    return cells.map((cell, column) => ({
      base: page === "docs/MAP.md" ? baseOf(cells, column) : "",
      spans: spansOf(cell),
    }));
  });
}

/** The lines of a block of code as texts in backticks, without their comments. */
function commandsOf(_block: string, lines: string): string {
  return lines.replace(/^(.*?)( *#.*)?$/gm, "`$1`");
}

/** MAP has a table with a row per module, and tables with a column per plane. */
function baseOf(cells: string[], column: number): string {
  const [, module] = /^\| `([a-z-]+)`/.exec(cells[0] ?? "") ?? [];
  if (module !== undefined) return `src/${module}`;
  const planes = ["", "src/planes/node", "src/planes/nginx", "src/planes/envoy"];
  return cells.length === planes.length ? (planes[column] ?? "") : "";
}

function spansOf(text: string): Span[] {
  const parts = text.split("`");
  return parts.flatMap((part, i) => (i % 2 === 1 ? [{ text: part, before: parts[i - 1] ?? "" }] : []));
}

const isPath = (text: string) =>
  /^[\w.@{}<>*,/-]+$/.test(text) && (/^[\w.{-]+\//.test(text) || /\.(tsx?|[ch]|md|lua|sh|json|ya?ml)$/.test(text));

/** The path from the root; undefined if there is none. Placeholders and `*` stand for any name, braces for several. */
function resolved(text: string, named: readonly string[]): string | undefined {
  if (/^(dist|\.cache)\//.test(text)) return text;
  const above = named.flatMap((path) => (path === "" ? [] : [path, dirname(path), dirname(dirname(path))]));
  for (const folder of ["", "src", ...above.filter((path) => path !== ".")]) {
    const plain = join(folder, text)
      .replace(/\/$/, "")
      .replace(/[.]/g, "\\$&")
      .replace(/<[^>]+>|\*/g, "[^/]+");
    const pattern = new RegExp(
      `^${plain.replace(/\{([^}]*)\}/g, (_, names: string) => `(${names.replaceAll(",", "|")})`)}$`,
    );
    const found = paths.filter((path) => pattern.test(path));
    const expected = /\{([^}]*)\}/.exec(text)?.[1]?.split(",").length ?? 1;
    if (found.length >= expected) return found[0];
  }
  return undefined;
}

const isWord = (word: string, text: string) => new RegExp(`(?<![\\w-])${word}(?!\\w)`).test(text);
const defines = (name: string, text: string) =>
  new RegExp(`\\b(function|const|let|interface|type|class) ${name}\\b|^  (readonly )?${name}[(:?]`, "m").test(text);

function commandProblem(text: string): string | undefined {
  const [program, ...words] = text.replace(/^npx /, "").split(/\s+/);
  const [first = ""] = words;
  if (program === "tollgate") return commands.includes(first) ? undefined : "tollgate has no such command";
  if (program !== "make")
    return words.every((word) => !word.includes("/") || resolved(word, [])) ? undefined : "no such file";
  const targets = words.filter((word) => /^[a-z-]+$/.test(word));
  const makefile = read("Makefile");
  const isKnown = targets.every((target) => new RegExp(`^${target}:`, "m").test(makefile));
  return isKnown ? undefined : "make has no such target";
}

/** The file next to a name, in which it should be defined: `path` `name`, `path` (`name`), `name` in `path`. */
function placeOf(span: Span, last: string | undefined, next: Span | undefined, named: string[]): string | undefined {
  if (next !== undefined && isPath(next.text) && /^(\s(in|of)\s|\s\()$/.test(next.before))
    return resolved(next.text, named);
  return /^[\s,(:]+$/.test(span.before) ? last : undefined;
}

function nameProblem(name: string, place: string | undefined): string | undefined {
  const text = place === undefined ? undefined : sources.get(place);
  if (text !== undefined) return defines(name, text) ? undefined : `is not defined in ${place}`;
  const isOurs = /[a-z][A-Z]|^[A-Z][a-z]/.test(name);
  const exists = isOurs ? [...sources.values()].some((source) => defines(name, source)) : isWord(name, allSources);
  return exists ? undefined : "is not in the source";
}

/** What is wrong with a text that is neither path nor name; undefined if nothing is, or if it cannot be checked. */
function otherProblem(text: string): string | undefined {
  if (/^(make|tollgate|npx) |^\S+\/\S+\.sh /.test(text)) return commandProblem(text.replace(/^(\S+\.sh) /, "sh $1 "));
  const [, variable] = /^([A-Z_]+)=/.exec(text) ?? [];
  if (variable !== undefined) return isWord(variable, allSources) ? undefined : "no such variable";
  if (/\.(conf|so)$/.test(text)) return isWord(text, allSources) ? undefined : "is not in the source";
  const [, option] = /^([a-z_]+(?:\.(?:NAME|[a-z_0-9]+))+)(?:: .*)?$/.exec(text) ?? [];
  if (option !== undefined) {
    const wanted = `.${option.replaceAll(".NAME", "")}`;
    return options.some((path) => path.endsWith(wanted)) ? undefined : "no such option";
  }
  const [, endpoint] = /^(?:[A-Z]+ )?(\/[a-z0-9/-]+)$/.exec(text) ?? [];
  if (endpoint !== undefined) return allSources.includes(`${endpoint}"`) ? undefined : "no such endpoint";
  const fields = /^[#!]?[\w [\]…]+$/.test(text) ? text.match(/[a-z_]{3,}/g) : [];
  return (fields ?? []).every((field) => isWord(field, allSources))
    ? undefined
    : "has a field that is not in the source";
}

function problemsOf(page: string, text: string): string[] {
  return sectionsOf(page, text).flatMap(({ base, spans }) => {
    const named = [base];
    let last: string | undefined;
    return spans.flatMap((span, i) => {
      const before = last;
      last = isPath(span.text) ? resolved(span.text, named) : undefined;
      if (last !== undefined) named.unshift(last);
      const [, name] = /^([A-Za-z_][\w-]*)(?:\(.*\))?$/.exec(span.text) ?? [];
      const problem = isPath(span.text)
        ? last === undefined && "no such file or folder"
        : name === undefined
          ? otherProblem(span.text)
          : nameProblem(name, placeOf(span, before, spans[i + 1], named));
      return problem ? [`${span.text}: ${problem}`] : [];
    });
  });
}

describe("the names in the page", () => {
  it.each(PAGES)("%s exist", (page) => {
    expect(problemsOf(page, read(page))).toEqual([]);
  });

  it.each([
    ["`src/core/no-such.ts`", "src/core/no-such.ts: no such file or folder"],
    ["`planes/{nginx,haproxy}`", "planes/{nginx,haproxy}: no such file or folder"],
    ["`planes/nginx/main.ts`, `no-such.ts`", "no-such.ts: no such file or folder"],
    ["`leaseTarget` in `core/cost.ts`", "leaseTarget: is not defined in src/core/cost.ts"],
    ["`core/cost.ts` (`leaseTarget`)", "leaseTarget: is not defined in src/core/cost.ts"],
    ["`noSuchName`", "noSuchName: is not in the source"],
    ["`no_such_field`", "no_such_field: is not in the source"],
    ["`app no_such_field`", "app no_such_field: has a field that is not in the source"],
    ["`make no-such`", "make no-such: make has no such target"],
    ["`tollgate no-such`", "tollgate no-such: tollgate has no such command"],
    ["`npx tsx build/no-such.ts`", "npx tsx build/no-such.ts: no such file"],
    ["`NO_SUCH=1`", "NO_SUCH=1: no such variable"],
    ["`control.no_such`", "control.no_such: no such option"],
    ["`GET /v1/no-such`", "GET /v1/no-such: no such endpoint"],
  ])("are found: %s does not", (text, problem) => {
    expect(problemsOf("page", text)).toEqual([problem]);
  });
});
