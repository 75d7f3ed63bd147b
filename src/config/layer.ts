/** The store layer of the configuration: options for all nodes of a cluster, merged over their files. */
import { escaped, namedAt, type Path, type Problem, valueAt } from "./problem.js";
import { notInStore, optionAt } from "./reach.js";
import { isSection, type Section } from "./variables.js";

export const LAYER = "store layer";

/** More than twice the nesting of a valid configuration. */
const DEEPEST = 32;

/** Structural problems of the layer. Its values are validated with the merged configuration. */
export function layerProblems(layer: unknown): Problem[] {
  if (!isSection(layer)) return [layerProblem("must be an object of options")];
  if (isDeeper(layer, DEEPEST)) return [layerProblem("is nested too deeply")];
  const problems: Problem[] = [];
  const forbidden = (path: Path, reason: string) => problems.push(inLayer(namedAt(path, layer, reason)));
  for (const option of notInStore) {
    if (optionAt(layer, option) === undefined) continue;
    forbidden(option.split("."), "cannot be set in the store: every node needs its own value");
  }
  for (const path of protoPaths(layer, [])) forbidden(path, "is not an allowed name");
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

/** Sections are merged by name. Other values replace; an empty section changes nothing. */
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

/** `profile: iops` is short for `profile: { based_on: iops }`. */
function sectionFor(value: unknown, path: Path): Section {
  if (isSection(value)) return value;
  const isProfile = path.length === 3 && path[0] === "apps" && path[2] === "profile";
  return isProfile && typeof value === "string" ? { based_on: value } : {};
}

/** Whether the value at a path comes from the layer: the value itself, or a surrounding section that the file does not have. */
export function isFromStoreLayer(path: Path, file: unknown, layer: unknown): boolean {
  for (let length = 1; length <= path.length; length++) {
    const [below, above] = [file, layer].map((root) => valueAt(root, path.slice(0, length)));
    if (above === undefined) return false;
    if (!isSection(below)) return true;
    if (!isSection(above)) return above !== null;
  }
  return false;
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

/** JSON in ASCII, so that its length in characters is its length in bytes. */
export function layerText(layer: Section): string {
  return escaped(JSON.stringify(layer), /[\u007f-\uffff]/g);
}

/** Parses a stored layer. An empty string is an empty layer. */
export function parseLayer(text: string): { layer: Section; problems: [] } | { layer: undefined; problems: Problem[] } {
  if (text === "") return { layer: {}, problems: [] };
  let layer: unknown;
  try {
    layer = JSON.parse(text);
  } catch {
    // The parser error quotes the text, which may contain a secret.
    return { layer: undefined, problems: [layerProblem("is not JSON")] };
  }
  const problems = layerProblems(layer);
  return problems.length > 0 ? { layer: undefined, problems } : { layer: layer as Section, problems: [] };
}
