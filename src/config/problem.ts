/** What is wrong with a configuration, in words for the person who wrote it. Never a secret, never a control character. */
import type * as z from "zod";

export interface Problem {
  /** Where: the option, the line of the file, or the environment variable. */
  path: string;
  /** What stands there, as written, unless it might be a secret. */
  value: string;
  reason: string;
}

export type Path = PropertyKey[];

/** With the option it is about, from which can be told who set it. */
export interface PlacedProblem extends Problem {
  place?: Path;
}

const LONGEST = 60;
/** Sections whose values, and those below them, are not repeated. A url may hold a password. */
const secretNames = new Set<PropertyKey>(["admin_token", "plane_token", "api_keys", "store"]);

export function describeProblem({ path, value, reason }: Problem): string {
  return value === "" ? `${path}: ${reason}` : `${path}: ${reason} (is ${value})`;
}

/** The complaints of the schema about the section `name`. `raw` is the file as written, before variables were put in. */
export function problemsOf(issues: readonly z.core.$ZodIssue[], name: string, raw: unknown): PlacedProblem[] {
  const problems: PlacedProblem[] = [];
  for (const issue of issues) {
    const path = [name, ...issue.path];
    if (issue.code === "unrecognized_keys") {
      const reasons = issue.message.split("\n");
      // Whatever stands under a name that is not known may be a secret under a misspelt name.
      issue.keys.forEach((key, i) => {
        problems.push(namedAt([...path, key], raw, reasons[i] ?? issue.message));
      });
    } else if (issue.code === "invalid_key") {
      problems.push(namedAt(path, raw, issue.message));
    } else {
      problems.push(problemAt(path, raw, issue.message));
    }
  }
  return problems;
}

/** A problem of a name, whatever stands under it. */
export function namedAt(path: Path, raw: unknown, reason: string): PlacedProblem {
  return { path: shownPath(withoutKeys(path, raw)), value: "", reason, place: path };
}

export function problemAt(path: Path, raw: unknown, reason: string): PlacedProblem {
  const place = writtenPlace(path, raw);
  const hidden = place.some((part) => secretNames.has(part));
  const value = valueAt(raw, place);
  // What is not there need not be shown.
  return {
    path: shownPath(withoutKeys(place, raw)),
    value: hidden || value === undefined ? "" : shownValue(value),
    reason,
    place,
  };
}

/** A text that stands for a section (`profile: gold`) has no options of its own: it is what is wrong. */
function writtenPlace(path: Path, raw: unknown): Path {
  for (let length = 1; length < path.length; length++) {
    if (typeof valueAt(raw, path.slice(0, length)) === "string") return path.slice(0, length);
  }
  return path;
}

/** Whoever writes api_keys the wrong way round has a key for a name: entries are told by their number. */
function withoutKeys(path: Path, raw: unknown): Path {
  const at = path.indexOf("api_keys") + 1;
  if (at === 0 || at === path.length) return path;
  const names = Object.keys(Object(valueAt(raw, path.slice(0, at))));
  return [...path.slice(0, at), names.indexOf(String(path[at])), ...path.slice(at + 1)];
}

function valueAt(raw: unknown, path: Path): unknown {
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
  // JSON leaves what lies beyond ASCII as it is, and some of that moves the cursor or the line, too.
  return JSON.stringify(cut).replace(
    /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
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
