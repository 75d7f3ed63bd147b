/** Problems of a configuration, with path, value and reason. They contain no secrets and no control characters. */
import type * as z from "zod";

export interface Problem {
  /** The option, the line of the file, or the environment variable. */
  path: string;
  /** The value as written, unless it may be a secret. */
  value: string;
  reason: string;
}

export type Path = PropertyKey[];

/** With the path of the option, to find out which layer set it. */
export interface PlacedProblem extends Problem {
  place?: Path;
}

const LONGEST = 60;
/** Options whose values are not shown. A URL may contain a password. */
export const secretOptions: ReadonlySet<PropertyKey> = new Set([
  "admin_token",
  "plane_token",
  "operators",
  "viewers",
  "planes",
  "api_keys",
  "store",
  "authorization",
]);
/** Options with secrets by name. */
const keyed: readonly PropertyKey[] = ["api_keys", "operators", "viewers", "planes"];

export function describeProblem({ path, value, reason }: Problem): string {
  return value === "" ? `${path}: ${reason}` : `${path}: ${reason} (is ${value})`;
}

/** The schema issues of section `name`. `raw`: the file before variables are replaced. */
export function problemsOf(issues: readonly z.core.$ZodIssue[], name: string, raw: unknown): PlacedProblem[] {
  return issues.flatMap((issue) => {
    const path = [name, ...issue.path];
    // One line per key. The value of an unknown name may be a secret under a misspelt name.
    if (issue.code === "unrecognized_keys") {
      const reasons = issue.message.split("\n");
      return issue.keys.map((key, i) => namedAt([...path, key], raw, reasons[i] ?? issue.message));
    }
    return [(issue.code === "invalid_key" ? namedAt : problemAt)(path, raw, issue.message)];
  });
}

/** A problem of a name; the value is not shown. */
export function namedAt(path: Path, raw: unknown, reason: string): PlacedProblem {
  return { path: shownPath(withoutKeys(path, raw)), value: "", reason, place: path };
}

export function problemAt(path: Path, raw: unknown, reason: string): PlacedProblem {
  const place = writtenPlace(path, raw);
  const hidden = place.some((part) => secretOptions.has(part));
  const value = valueAt(raw, place);
  return {
    path: shownPath(withoutKeys(place, raw)),
    value: hidden || value === undefined ? "" : shownValue(value),
    reason,
    place,
  };
}

/** For a string in place of a section (`profile: gold`) the path of the string. */
function writtenPlace(path: Path, raw: unknown): Path {
  for (let length = 1; length < path.length; length++) {
    if (typeof valueAt(raw, path.slice(0, length)) === "string") return path.slice(0, length);
  }
  return path;
}

/** Shows entries of api_keys and the like by number: if name and secret are swapped, the name is a secret. */
function withoutKeys(path: Path, raw: unknown): Path {
  const at = path.findIndex((part) => keyed.includes(part)) + 1;
  if (at === 0 || at === path.length) return path;
  const names = Object.keys(Object(valueAt(raw, path.slice(0, at))));
  return [...path.slice(0, at), names.indexOf(String(path[at])), ...path.slice(at + 1)];
}

/** Undefined if the name does not exist. Inherited properties do not count. */
export function valueAt(raw: unknown, path: Path): unknown {
  let value = raw;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

function shownValue(value: unknown): string {
  if (value === null) return "empty";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object") return "a section";
  if (typeof value === "string") return quoted(value);
  return String(value);
}

export function quoted(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  // JSON does not escape control characters beyond ASCII.
  return escaped(JSON.stringify(cut), /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g);
}

/** JSON in which the given characters are escaped. */
export function escaped(json: string, characters: RegExp): string {
  return json.replace(characters, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function shownPath(path: Path): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else if (/^[A-Za-z0-9_-]{1,128}$/.test(String(part))) text += text === "" ? String(part) : `.${String(part)}`;
    else text += `[${quoted(String(part))}]`;
  }
  return text;
}
