/** The Redis function library, as a module that the build generates: bundlers include it, and nothing is read from disk. */
import { source } from "../../dist/lua/redis/library.js";

export interface FunctionLibrary {
  /** `tollgate_` and a hash of the content. */
  name: string;
  source: string;
}

export function loadLibrary(): FunctionLibrary {
  const name = /^#!lua name=(\w+)$/m.exec(source)?.[1];
  if (name === undefined) throw new Error("the function library has no name");
  return { name, source };
}
