/**
 * The path of a request. Gateways reject paths that servers read in different ways, or resolve them before they are routed and
 * passed on; limits compare what is left in one form, so that another spelling does not avoid a limit.
 */
import { hexDigit } from "./address.js";
import {
  characterOf,
  codeAt,
  cutText,
  encodeForPath,
  findText,
  hasControls,
  hasPrefix,
  isPlainPath,
  joinValues,
  splitText,
} from "./platform.js";

/** Which paths a gateway rejects. */
export interface PathRules {
  /** Encoded slashes and backslashes are kept; otherwise a path that has one is rejected. */
  keepsEncodedSlashes: boolean;
  /** Also reject what would be resolved: dot segments, empty segments and encoded dots; and what a second decoding would change. */
  strict: boolean;
}

const SLASH = 47;
const BACKSLASH = 92;
const PERCENT = 37;
const DOT = 46;
const DIGITS = "0123456789ABCDEF";

/** Without the query and the fragment. */
export function pathOf(target: string): string {
  const query = findText(target, "?", 0);
  const path = query < 0 ? target : cutText(target, 0, query);
  const fragment = findText(path, "#", 0);
  return fragment < 0 ? path : cutText(path, 0, fragment);
}

/**
 * Whether a gateway accepts a path without its query. It must begin with a slash and have no fragment, backslash, space,
 * invalid escape, control character, or dot segment with parameters (`..;`).
 */
export function isAcceptedPath(path: string, rules: PathRules): boolean {
  if (isPlainPath(path)) return true;
  if (!hasPrefix(path, "/") || findText(path, "#", 0) >= 0 || findText(path, "\\", 0) >= 0) return false;
  if (hasControls(path) || findText(path, " ", 0) >= 0) return false;
  let at = findText(path, "%", 0);
  while (at >= 0) {
    if (!isAcceptedEscape(path, at, rules)) return false;
    at = findText(path, "%", at + 3);
  }
  const segments = splitText(decoded(path), "/");
  for (let i = 1; i < segments.length; i++) {
    const segment = segments[i]!;
    if (hasPrefix(segment, ".;") || hasPrefix(segment, "..;")) return false;
    if (rules.strict && (segment === "." || segment === ".." || (segment === "" && i < segments.length - 1)))
      return false;
  }
  return true;
}

function isAcceptedEscape(path: string, at: number, { keepsEncodedSlashes, strict }: PathRules): boolean {
  const code = escapedCode(path, at);
  if (code < 32 || code === 127) return false;
  if (code === SLASH || code === BACKSLASH) return keepsEncodedSlashes;
  if (!strict) return true;
  const isEscapedTwice = code === PERCENT && at + 5 <= path.length && isHex(path, at + 3) && isHex(path, at + 4);
  return code !== DOT && !isEscapedTwice;
}

function isHex(text: string, at: number): boolean {
  return hexDigit(codeAt(text, at)) >= 0;
}

/** The form of an accepted path by which requests are routed: without its query, decoded, and without empty and dot segments. */
export function canonicalPath(target: string): string {
  const path = pathOf(target);
  return isPlainPath(path) ? path : resolved(decoded(path), false);
}

/** As a gateway passes a path on: without empty and dot segments, otherwise as received. */
export function forwardedPath(path: string): string {
  const segments = splitText(path, "/");
  let isResolved = true;
  for (let i = 1; i < segments.length; i++) {
    const segment = segments[i]!;
    // Longer ones are no dot segments, however they are encoded.
    const name = segment.length > 6 ? segment : decoded(segment);
    if (name === "." || name === "..") segments[i] = name;
    if (name === "." || name === ".." || (name === "" && i < segments.length - 1)) isResolved = false;
  }
  return isResolved ? path : joined(segments, false);
}

/**
 * The paths that servers may read in a path that is not plain, the canonical one first: some do not resolve dot segments, ignore
 * parameters (`;x`), or decode slashes.
 */
export function pathReadings(target: string): string[] {
  const text = decoded(pathOf(target));
  const readings = [resolved(text, false)];
  add(readings, text);
  if (findText(text, ";", 0) >= 0) add(readings, resolved(text, true));
  const slashed = withSlashes(text);
  if (slashed !== text) {
    add(readings, slashed);
    add(readings, resolved(slashed, false));
    add(readings, resolved(slashed, true));
    add(readings, resolved(withSlashes(resolved(text, true)), true));
  }
  return readings;
}

function add(list: string[], text: string): void {
  for (const one of list) if (one === text) return;
  list.push(text);
}

/** The path as a value of a limit: spellings that some servers read alike are one value. */
export function pathValue(target: string): string {
  const path = pathOf(target);
  return withoutLastSlash(isPlainPath(path) ? path : resolved(withSlashes(decoded(path)), true));
}

/** Many servers ignore a slash at the end. */
export function withoutLastSlash(path: string): string {
  const last = path.length - 1;
  return last > 0 && codeAt(path, last) === SLASH ? cutText(path, 0, last) : path;
}

/** Decodes printable characters except / \ ? # %, and encodes the others in one way. An invalid escape becomes `%25`. */
export function decoded(path: string): string {
  let next = findText(path, "%", 0);
  if (next < 0) return encodeForPath(path);
  const parts: string[] = [];
  let at = 0;
  while (next >= 0) {
    parts.push(encodeForPath(cutText(path, at, next)));
    const code = escapedCode(path, next);
    parts.push(code < 0 ? "%25" : isKept(code) ? escapeOf(code) : characterOf(code));
    at = code < 0 ? next + 1 : next + 3;
    next = findText(path, "%", at);
  }
  parts.push(encodeForPath(cutText(path, at, path.length)));
  return joinValues(parts, "", 0);
}

/** The code of the escaped byte at `at`; negative if the escape is invalid. */
function escapedCode(path: string, at: number): number {
  if (at + 3 > path.length) return -1;
  const high = hexDigit(codeAt(path, at + 1));
  const low = hexDigit(codeAt(path, at + 2));
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

function isKept(code: number): boolean {
  return (
    code <= 32 || code >= 127 || code === SLASH || code === BACKSLASH || code === 63 || code === 35 || code === PERCENT
  );
}

function escapeOf(code: number): string {
  const high = Math.floor(code / 16);
  const low = code - high * 16;
  return `%${cutText(DIGITS, high, high + 1)}${cutText(DIGITS, low, low + 1)}`;
}

/** Of a decoded path: encoded slashes and backslashes as slashes. */
export function withSlashes(path: string): string {
  return replaced(replaced(path, "%2F"), "%5C");
}

function replaced(path: string, escaped: string): string {
  let next = findText(path, escaped, 0);
  if (next < 0) return path;
  const parts: string[] = [];
  let at = 0;
  while (next >= 0) {
    parts.push(cutText(path, at, next));
    at = next + 3;
    next = findText(path, escaped, at);
  }
  parts.push(cutText(path, at, path.length));
  return joinValues(parts, "/", 0);
}

/** Without empty and dot segments, and without parameters if they are to be dropped. */
function resolved(path: string, dropsParameters: boolean): string {
  return joined(splitText(path, "/"), dropsParameters);
}

function joined(segments: string[], dropsParameters: boolean): string {
  const kept: string[] = [];
  let count = 0;
  let name = "";
  for (const segment of segments) {
    const parameters = dropsParameters ? findText(segment, ";", 0) : -1;
    name = parameters < 0 ? segment : cutText(segment, 0, parameters);
    if (name === "..") count = Math.max(count - 1, 0);
    else if (name !== "" && name !== ".") {
      kept[count] = name;
      count++;
    }
  }
  const parts = [""];
  for (let i = 0; i < count; i++) parts.push(kept[i]!);
  if (count === 0 || name === "" || name === "." || name === "..") parts.push("");
  return joinValues(parts, "/", 0);
}
