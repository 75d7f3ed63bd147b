/** The paths that the limits of a request are compared with. */
import { pathOf, pathReadings, pathValue, withoutLastSlash } from "../core/path.js";
import { isPlainPath } from "../core/platform.js";

export interface FoundPaths {
  /** The canonical path of the request, and the one by which it was routed. */
  path: string;
  routedPath: string;
  /** What some servers may take the path for, too. */
  otherPaths: string[];
  /** The path as a value. */
  pathValue: string;
}

export const NOTHING: string[] = [];

/** `routed`: the path by which the server chose what serves the request, if it may differ. */
export function findPaths(found: FoundPaths, target: string, routed: string | undefined): void {
  const path = pathOf(target);
  const isPlain = isPlainPath(path);
  if (isPlain && (routed === undefined || routed === path)) {
    found.path = path;
    found.routedPath = path;
    found.otherPaths = NOTHING;
    found.pathValue = withoutLastSlash(path);
    return;
  }
  const readings = isPlain ? [path] : pathReadings(path);
  found.path = readings[0]!;
  found.routedPath = found.path;
  if (routed !== undefined) {
    const others = pathReadings(routed);
    found.routedPath = others[0]!;
    for (const other of others) readings.push(other);
  }
  found.otherPaths = readings;
  found.pathValue = pathValue(path);
}
