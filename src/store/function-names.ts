/** The names of the functions in Redis. */
import type { ScriptName } from "../scripts/catalog.js";

/** Function names are global in Redis, so they contain the name of the library. */
export function functionName(library: string, script: ScriptName): string {
  return `${library}_${script.replaceAll("-", "_")}`;
}
