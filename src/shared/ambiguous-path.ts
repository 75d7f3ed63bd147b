/**
 * Paths that servers read differently: invalid escapes, encoded dots, slashes, backslashes, control characters and percent
 * signs, backslashes, empty segments, and dot segments, also with parameters (`..;/`).
 * The pattern has the same meaning in JavaScript, PCRE and RE2, without regard to case, and needs no escaping in quotes.
 * A query may follow, if what precedes the match is limited to `[^?]*`.
 */
export const AMBIGUOUS_PATH = [
  "%(?:[^0-9a-f]|[0-9a-f](?:[^0-9a-f]|$)|$)",
  "%(?:2[ef]|5c|[01][0-9a-f]|7f|25[0-9a-f]{2})",
  String.raw`\x5c`,
  "//",
  "/[.][.]?(?:;|%3b|/|[?]|$)",
].join("|");

const pattern = new RegExp(AMBIGUOUS_PATH, "i");

/** @param path without the query */
export function isAmbiguousPath(path: string): boolean {
  return pattern.test(path);
}
