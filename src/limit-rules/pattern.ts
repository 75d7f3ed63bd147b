/** Texts with `*` for any characters, and path prefixes. */
import { cutText, findText, hasPrefix, splitText } from "../core/platform.js";

/** The texts between the `*` of a pattern; one without `*`. */
export type Pattern = string[];

export function parsePattern(text: string): Pattern {
  return splitText(text, "*");
}

/** Whether the text consists of the parts in this order, with any characters between them. */
export function matchesPattern(parts: readonly string[], text: string): boolean {
  const first = parts[0]!;
  if (parts.length === 1) return text === first;
  const last = parts[parts.length - 1]!;
  const end = text.length - last.length;
  let at = first.length;
  if (at > end || !hasPrefix(text, first) || cutText(text, end, text.length) !== last) return false;
  for (let i = 1; i < parts.length - 1; i++) {
    const part = parts[i]!;
    const found = findText(text, part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** As routes match: with a trailing slash everything that begins with the prefix, otherwise whole segments. */
export function coversPath(prefix: string, path: string): boolean {
  if (!hasPrefix(path, prefix)) return false;
  if (path.length === prefix.length || cutText(prefix, prefix.length - 1, prefix.length) === "/") return true;
  return cutText(path, prefix.length, prefix.length + 1) === "/";
}

/** Whether the path is that of the prefix or below it. The prefix has no slash at the end; empty: all paths. */
export function coversSegments(prefix: string, path: string): boolean {
  if (!hasPrefix(path, prefix)) return false;
  return path.length === prefix.length || cutText(path, prefix.length, prefix.length + 1) === "/";
}
