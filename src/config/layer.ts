/** The store's part in a configuration: what all nodes of a cluster are told beyond their own files. */
import { namedAt, type Path, type Problem } from "./problem.js";
import { notInStore, optionAt } from "./reach.js";
import { isSection, type Section } from "./variables.js";

export const LAYER = "store layer";

/** Nothing in a configuration is nested half as deeply. */
const DEEPEST = 32;

/** Problems of the layer in itself; whether its values are right is checked with all others. */
export function layerProblems(layer: unknown): Problem[] {
  if (!isSection(layer)) return [layerProblem("must be options with values, as an object")];
  if (isDeeper(layer, DEEPEST)) return [layerProblem("is nested too deeply")];
  const problems: Problem[] = [];
  const forbidden = (path: Path, reason: string) => problems.push(inLayer(namedAt(path, layer, reason)));
  for (const option of notInStore) {
    if (optionAt(layer, option) === undefined) continue;
    forbidden(option.split("."), "cannot be set in the store: each node must know it by itself");
  }
  for (const path of protoPaths(layer, [])) forbidden(path, "is no name for anything");
  return problems;
}

export function layerProblem(reason: string): Problem {
  return { path: LAYER, value: "", reason };
}

export function inLayer({ path, value, reason }: Problem): Problem {
  return { path: `${path} (${LAYER})`, value, reason };
}

export function isFromLayer({ path }: Problem): boolean {
  return path === LAYER || path.endsWith(` (${LAYER})`);
}

/** Sections merge, name by name. Anything else replaces what was there; a section that says nothing changes nothing. */
export function merge(below: unknown, above: unknown, path: Path = []): unknown {
  if (above === undefined) return below;
  if (isSection(below) && above === null) return below;
  if (!isSection(above)) return above;
  const merged: Section = { ...sectionFor(below, path) };
  for (const [name, value] of Object.entries(above)) {
    if (name === "__proto__") continue;
    merged[name] = merge(Object.hasOwn(merged, name) ? merged[name] : undefined, value, [...path, name]);
  }
  return merged;
}

/** `profile: iops` is short for a section. */
function sectionFor(value: unknown, path: Path): Section {
  if (isSection(value)) return value;
  const isProfile = path.length === 3 && path[0] === "apps" && path[2] === "profile";
  return isProfile && typeof value === "string" ? { based_on: value } : {};
}

/** Whether what is wrong at a place was said by the layer: there, or by a section around it that the file does not have. */
export function saidByLayer(path: Path, file: unknown, layer: unknown): boolean {
  let [below, above]: unknown[] = [file, layer];
  for (const part of path) {
    below = inner(below, part);
    above = inner(above, part);
    if (above === undefined) return false;
    if (!isSection(below)) return true;
    if (!isSection(above)) return above !== null;
  }
  return false;
}

function inner(value: unknown, part: PropertyKey): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
  return (value as Record<PropertyKey, unknown>)[part];
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => isDeeper(item, levels - 1));
}

function* protoPaths(value: unknown, path: Path): Generator<Path> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, item] of Object.entries(value)) {
    const here = [...path, Array.isArray(value) ? Number(name) : name];
    if (name === "__proto__") yield here;
    else yield* protoPaths(item, here);
  }
}

/** As JSON in ASCII: then characters are bytes, wherever they are counted. */
export function layerText(layer: Section): string {
  return JSON.stringify(layer).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** What stands in the store as a layer, or what is wrong with it. Nothing there is an empty layer. */
export function parseLayer(text: string): { layer: Section; problems: [] } | { layer: undefined; problems: Problem[] } {
  if (text === "") return { layer: {}, problems: [] };
  let layer: unknown;
  try {
    layer = JSON.parse(text);
  } catch {
    // What the parser says quotes the text, which may hold a secret.
    return { layer: undefined, problems: [layerProblem("is not JSON")] };
  }
  const problems = layerProblems(layer);
  return problems.length > 0 ? { layer: undefined, problems } : { layer: layer as Section, problems: [] };
}
