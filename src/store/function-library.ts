/** The Redis function library as the build wrote it, and the names of its functions. */
import { readFileSync } from "node:fs";
import type { ScriptName } from "../scripts/catalog.js";

export type FunctionLibrary = ReturnType<typeof loadLibrary>;

/** The same file relative to `src/store` and to `dist/store`. */
const file = new URL("../../dist/lua/redis/tollgate.lua", import.meta.url);

/** Its name is `tollgate_` and a hash of the content. */
export function loadLibrary() {
  let source: string;
  try {
    source = readFileSync(file, "utf8");
  } catch (cause) {
    throw new Error("dist/lua/redis/tollgate.lua is missing: run `make build`.", { cause });
  }
  const name = /^#!lua name=(\w+)$/m.exec(source)?.[1];
  if (name === undefined) throw new Error("the function library has no name");
  return { name, source };
}

/** Function names are global in Redis, so they contain the name of the library. */
export function functionName(library: string, script: ScriptName): string {
  return `${library}_${script.replaceAll("-", "_")}`;
}
