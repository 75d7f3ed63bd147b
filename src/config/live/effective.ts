/** The options of the active configuration as a list, each with the layer that its value comes from. Secrets are hidden. */
import { parseYaml } from "../load.js";
import { secretOptions, shownPath } from "../problem.js";
import type { Config } from "../schema.js";
import { type Environment, isSection, override, type Section } from "../variables.js";

export type OptionSource = "default" | "file" | "store" | "environment" | "command line";

export interface EffectiveOption {
  path: string;
  value: string;
  source: OptionSource;
  /** The environment variable. */
  variable?: string | undefined;
}

export interface EffectiveInput {
  config: Config;
  yaml: string;
  layer: Section;
  env: Environment;
  /** Options that were given on the command line. */
  commandLine: readonly string[];
}

/** More apps are left out. */
export const MOST_LISTED_APPS = 200;
const LONGEST_VALUE = 200;
const HIDDEN = "(hidden)";

type Path = readonly (string | number)[];

export function effectiveOptions({ config, yaml, layer, env, commandLine }: EffectiveInput): EffectiveOption[] {
  const listsApps = Object.keys(config.apps).length <= MOST_LISTED_APPS;
  // Many apps take long to parse, and are not listed: without their section.
  const text = listsApps ? yaml : yaml.replace(/^apps:.*(?:\n(?:[ \t#].*)?)*/m, "");
  const { raw } = parseYaml(text);
  const file = isSection(raw) ? raw : {};
  const { origin } = override({}, env);
  const redisVariable = ["REDIS_HOST", "REDIS_PORT", "REDIS_PASSWORD"].find((one) => (env[one] ?? "") !== "");
  const found: EffectiveOption[] = [];

  function sourceOf(path: Path): Pick<EffectiveOption, "source" | "variable"> {
    const name = shownPath([...path]);
    const variable = origin.get(name) ?? (name === "store" ? redisVariable : undefined);
    if (variable !== undefined) return { source: "environment", variable };
    if (commandLine.includes(name)) return { source: "command line" };
    if (isSet(layer, path)) return { source: "store" };
    return { source: isSet(file, path) ? "file" : "default" };
  }

  function add(value: unknown, path: Path): void {
    const name = path.at(-1) ?? "";
    if (secretOptions.has(name)) {
      const text = value === "" || (isSection(value) && Object.keys(value).length === 0) ? "not set" : HIDDEN;
      found.push({ path: shownPath([...path]), value: text, ...sourceOf(path) });
    } else if (isSection(value) && Object.keys(value).length > 0) {
      for (const [key, item] of Object.entries(value)) add(item, [...path, key]);
    } else if (Array.isArray(value) && value.some(isSection)) {
      for (const [i, item] of value.entries()) add(item, [...path, i]);
    } else if (value !== undefined && name !== "") {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      const shown = text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text;
      found.push({ path: shownPath([...path]), value: shown, ...sourceOf(path) });
    }
  }

  for (const [name, value] of Object.entries(config)) if (name !== "apps" || listsApps) add(value, [name]);
  return found;
}

/** Whether the layer has a value at the path, or a list or a short form in its place. */
function isSet(root: unknown, path: Path): boolean {
  let value = root;
  for (const part of path) {
    if (Array.isArray(value)) return true;
    if (!isSection(value)) return value !== undefined && value !== null;
    if (!Object.hasOwn(value, part)) return false;
    value = value[part];
  }
  return value !== undefined && value !== null;
}

/** In place of secrets. Long enough to be a valid token. */
const PLACEHOLDER = "hidden-in-a-comparison";

/**
 * The variables for a file that an operator pasted. It sees only those that the active file uses, and no secrets: the values
 * of its options are shown.
 */
export function comparisonEnvironment(yaml: string, env: Environment): Environment {
  const used = new Set([...yaml.matchAll(/\$\{([A-Za-z0-9_]+)/g)].map(([, name]) => name));
  const known = Object.entries(env).filter(([name]) => used.has(name) || /^(TOLLGATE|REDIS|RATELIMIT)_/.test(name));
  const isSecret = (name: string) => /TOKEN|PASS|SECRET|KEY|CREDENTIAL|URL/i.test(name);
  return Object.fromEntries(known.map(([name, value]) => [name, isSecret(name) && value !== "" ? PLACEHOLDER : value]));
}
