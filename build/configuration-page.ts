/** Generates the tables of docs/CONFIGURATION.md from the schema: `npx tsx build/configuration-page.ts`. A test fails when they differ. */
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { type OptionSchema, optionSchema } from "../src/config/json-schema.js";
import { needRestart } from "../src/config/reach.js";
import { overrides, storeVariables } from "../src/config/variables.js";
import { fromRoot, shown } from "./paths.js";

const PAGE = "docs/CONFIGURATION.md";

/** The text before this heading is written by hand. */
const FIRST_HEADING = "## The options";

interface Table {
  path: string;
  description: string;
  options: [name: string, option: OptionSchema][];
}

export function configurationPage(): string {
  const tables = [...tablesOf("", optionSchema())];
  const [introduction] = readFileSync(fromRoot(PAGE), "utf8").split(FIRST_HEADING);
  return `${introduction}${tables.map(section).join("\n")}`;
}

/** The options of a section, then those of its nested sections. */
function* tablesOf(path: string, { properties = {}, description = "" }: OptionSchema): Generator<Table> {
  const options = Object.entries(properties);
  yield { path, description, options };
  for (const [name, option] of options) {
    const [inner, end] = contentOf(option);
    if (inner.properties === undefined || option.likeSection !== undefined) continue;
    yield* tablesOf(`${path === "" ? "" : `${path}.`}${name}${end}`, {
      description: option.description ?? "",
      ...inner,
    });
  }
}

/** The schema of a section, of list entries, or of named entries. */
function contentOf(option: OptionSchema): [OptionSchema, string] {
  if (option.items !== undefined) return [option.items, "[]"];
  if (typeof option.additionalProperties === "object") return [option.additionalProperties, ".<name>"];
  return [option, ""];
}

function section({ path, description, options }: Table): string {
  const rows = options.map(([name, option]) => row(path, name, option));
  const withVariables = rows.some(({ variables }) => variables !== "");
  const cells = rows.map(({ name, kind, otherwise, variables, change, meaning }) =>
    [name, kind, otherwise, ...(withVariables ? [variables] : []), change, meaning].join(" | "),
  );
  const head = ["option", "kind", "default", ...(withVariables ? ["variable"] : []), "change", "meaning"];
  const within = path.replace(/\.<name>|\[\]/g, "");
  const title = path === "" ? FIRST_HEADING : `${within.includes(".") ? "###" : "##"} \`${path}\``;
  const lines = [head.join(" | "), head.map(() => "---").join(" | "), ...cells].map((line) => `| ${line} |`);
  return `${title}\n\n${description === "" ? "" : `${description}\n\n`}${lines.join("\n")}\n`;
}

function row(path: string, name: string, option: OptionSchema) {
  const full = path === "" ? name : `${path}.${name}`;
  const [inner, end] = contentOf(option);
  const isSection = inner.properties !== undefined;
  const target = option.likeSection ?? `${full}${end}`;
  const place = isSection ? `[\`${target}\`](#${anchor(target)})` : "";
  return {
    name: `\`${name}\``,
    kind: cell(isSection ? sectionKind(option, place) : kindOf(option)),
    otherwise: cell(isSection ? (option.otherwise ?? "") : defaultOf(option)),
    variables: variablesOf(full)
      .map((variable) => `\`${variable}\``)
      .join(" "),
    change: needRestart.some((one) => full === one || full.startsWith(`${one}.`)) ? "restart" : isSection ? "" : "live",
    meaning: cell(option.description ?? ""),
  };
}

function sectionKind(option: OptionSchema, place: string): string {
  if (option.items !== undefined) return `list of at most ${withCommas(String(option.maxItems))}, each ${place}`;
  if (typeof option.additionalProperties === "object") return `names, each with ${place}`;
  return option.names === undefined ? place : `${option.names.map((name) => `\`${name}\``).join(", ")}, or ${place}`;
}

function kindOf(option: OptionSchema): string {
  return wordsOf(option).replace(/^an? /, "");
}

/** With the article, as part of a sentence. */
function wordsOf({ kind = "", items, additionalProperties }: OptionSchema): string {
  const words = readable(withCommas(kind));
  // A kind that is a list or a single value describes the value already.
  if (items?.kind !== undefined) return `${words}, each ${wordsOf(items)}`;
  if (typeof additionalProperties !== "object" || additionalProperties.kind === undefined) return words;
  return `names, each with ${wordsOf(additionalProperties)}`;
}

/** Kinds are parts of error messages: "must be …". */
function readable(kind: string): string {
  const isChoice = /^[\w.-]+( or [\w.-]+){2,}$/.test(kind);
  if (isChoice) return kind.replace(/ or (?=.* or )/g, ", ");
  return kind
    .replace(/^(\d+ to \d+) of (?=A–Z)/, "$1 characters of ")
    .replace(/^must begin with (.*) and have /, "text that begins with $1 and has ");
}

function defaultOf(option: OptionSchema): string {
  const { default: value, otherwise, required } = option;
  if (otherwise !== undefined) return otherwise;
  if (value === undefined)
    return required === undefined && option.additionalProperties !== undefined ? "none" : "required";
  if (value === "") return "empty";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map((item) => `\`${item}\``).join(", ");
  return `\`${String(value)}\``;
}

function variablesOf(option: string): string[] {
  if (option === "store") return storeVariables;
  return Object.keys(overrides).filter((variable) => overrides[variable]?.join(".") === option);
}

const withCommas = (text: string) =>
  text.replace(/(?<![\d.])\d{5,}/g, (digits) =>
    digits.length > 15 ? "2^53 − 1" : Number(digits).toLocaleString("en-US"),
  );
const cell = (text: string) => text.replaceAll("|", "\\|");
/** As GitHub makes them: letters, digits, hyphens and underscores stay. */
const anchor = (title: string) => title.toLowerCase().replace(/[^a-z0-9_-]/g, "");

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  writeFileSync(fromRoot(PAGE), configurationPage());
  console.log(shown(fromRoot(PAGE)));
}
