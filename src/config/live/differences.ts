/** The options whose values differ between two configurations, for people: path, old and new value. Secrets are hidden. */
import { isDeepStrictEqual } from "node:util";
import { secretOptions, shownPath } from "../problem.js";
import type { Config } from "../schema.js";
import { isSection } from "../variables.js";

export interface Difference {
  path: string;
  /** Null: not set. */
  before: string | null;
  after: string | null;
}

const LONGEST_VALUE = 200;

type Path = readonly (string | number)[];

/** At most `most`, in the order of the options. */
export function configDifferences(before: Config, after: Config, most: number): Difference[] {
  const found: Difference[] = [];

  function compare(old: unknown, now: unknown, path: Path): void {
    if (found.length >= most || isDeepStrictEqual(old, now)) return;
    const name = path.at(-1) ?? "";
    const [oldParts, newParts] = [partsOf(old), partsOf(now)];
    // A section that is added or removed is listed option by option.
    if (!secretOptions.has(name) && (oldParts ?? newParts) !== undefined && isPart(old) && isPart(now)) {
      const [from, to] = [oldParts ?? new Map(), newParts ?? new Map()];
      for (const key of new Set([...from.keys(), ...to.keys()])) compare(from.get(key), to.get(key), [...path, key]);
      return;
    }
    found.push({ path: shownPath([...path]), before: text(old, name), after: text(now, name) });
  }

  compare(before, after, []);
  return found;
}

const isPart = (value: unknown) => value === undefined || partsOf(value) !== undefined;

/** The options of a section, or the entries of a list of sections. Those with a name or path are compared by it: order and number may change. */
function partsOf(value: unknown): Map<string | number, unknown> | undefined {
  if (isSection(value)) return Object.keys(value).length === 0 ? undefined : new Map(Object.entries(value));
  if (!Array.isArray(value) || !value.every(isSection) || value.length === 0) return undefined;
  const names = value.map(({ name, host = "", path, domain }) => name ?? domain ?? (path && `${host}${path}`));
  const areUnique = names.every((name) => typeof name === "string") && new Set(names).size === names.length;
  return new Map(value.map((item, i) => [areUnique ? (names[i] as string) : i, item]));
}

function text(value: unknown, name: string | number): string | null {
  if (value === undefined) return null;
  if (secretOptions.has(name)) return "(hidden)";
  const written = typeof value === "string" ? value : JSON.stringify(value);
  return written.length > LONGEST_VALUE ? `${written.slice(0, LONGEST_VALUE)}…` : written;
}
