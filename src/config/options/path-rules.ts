/** Maps the options about paths to the rules of the planes. */
import type { PathRules } from "../../core/path.js";
import type { Config } from "../schema.js";
import type { CamelCase } from "./camel-case.js";

type PathOptions = Pick<CamelCase<Config["request_limits"]>, "path" | "encodedSlashes">;

/** With several routes, an encoded slash would make the choice of the route ambiguous. */
export function pathRules({ path, encodedSlashes }: PathOptions, routeCount: number): PathRules {
  const strict = path === "strict";
  const isKept = encodedSlashes === undefined ? !strict && routeCount <= 1 : encodedSlashes === "keep";
  return { strict, keepsEncodedSlashes: isKept };
}
