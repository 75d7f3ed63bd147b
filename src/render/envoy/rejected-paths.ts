/** The paths that Envoy rejects, as a pattern for its routes; `core/path.ts` decides about them on the other planes. */
import { pathRules } from "../../config/options/path-rules.js";
import type { Config } from "../../config/schema.js";
import { canonicalPath, type PathRules } from "../../core/path.js";

const ALWAYS = [
  // Invalid escapes and encoded control characters.
  "%(?:[^0-9a-f]|[0-9a-f](?:[^0-9a-f]|$)|$)",
  "%(?:[01][0-9a-f]|7f)",
  String.raw`\x5c`,
  // Dot segments with parameters.
  "/(?:[.]|%2e){1,2}(?:;|%3b)",
];
const STRICT = ["%2e", "%25[0-9a-f]{2}", "//", "/[.][.]?(?:/|$)"];
/** The connection manager rejects them first. */
const ENCODED_SLASHES = ["%(?:2f|5c)"];

/** In RE2's syntax, without regard to case, for a path without its query. `routes`: the paths of all routes. */
export function rejectedPaths({ strict, keepsEncodedSlashes }: PathRules, routes: readonly string[]): string {
  const parts = [...ALWAYS, ...(strict ? STRICT : []), ...(keepsEncodedSlashes ? [] : ENCODED_SLASHES)];
  return `(?i).*(?:${[...parts, ...encodedInRoutes(routes)].join("|")}).*`;
}

/** Envoy does not decode reserved characters, so an encoded one would lead to another route than the character itself. */
function encodedInRoutes(routes: readonly string[]): string[] {
  const reserved = new Set(routes.flatMap((path) => canonicalPath(path).match(/[^\w/.~%-]/g) ?? []));
  return [...reserved].map((character) => `%${character.charCodeAt(0).toString(16)}`);
}

export function envoyPathRules({
  request_limits: limits,
  routes,
}: Pick<Config, "request_limits" | "routes">): PathRules {
  return pathRules({ path: limits.path, encodedSlashes: limits.encoded_slashes }, routes.length);
}
