/** Function libraries that differ from the built one, each under its own name. */
import { createHash } from "node:crypto";
import { type FunctionLibrary, loadLibrary } from "../../src/store/function-library.js";

/** The library with its text changed. It can be loaded on the same server as the original. */
export function editedLibrary(edit: (source: string) => string, library = loadLibrary()): FunctionLibrary {
  const source = edit(library.source);
  const name = `tollgate_${createHash("sha256").update(source).digest("hex").slice(0, 12)}`;
  return { name, source: source.replaceAll(library.name, name) };
}

/** The same functions as the built library, in another version. */
export function otherVersion(): FunctionLibrary {
  return editedLibrary((source) => `${source}-- another version\n`);
}

const CALL = "return scripts[script].run(redis, keys, args)";

/** The clock is passed as the last argument. Only TIME is replaced. */
const CALL_WITH_CLOCK = `local now = table.remove(args)
            local driven = {
                call = function(command, ...)
                    if command == "TIME" then
                        return {string.sub(now, 1, -7), string.sub(now, -6)}
                    end
                    return redis.call(command, ...)
                end,
                pcall = redis.pcall
            }
            return scripts[script].run(driven, keys, args)`;

export function withDrivenClock(library: FunctionLibrary): FunctionLibrary {
  return editedLibrary((source) => {
    if (!source.includes(CALL)) throw new Error("the library does not call its scripts as expected");
    return source.replace(CALL, () => CALL_WITH_CLOCK);
  }, library);
}

/** Replaces the only occurrence of `find` in one module of the library, which is named as below src/scripts. */
export function editModule(source: string, module: string, find: RegExp, replace: string): string {
  const start = source.indexOf(`["src.scripts.${module.replaceAll("/", ".")}"] = `);
  const end = source.indexOf("\n end,\n", start);
  if (start < 0) throw new Error(`${module} is not in the library`);
  const text = source.slice(start, end);
  const found = text.match(find)?.length ?? 0;
  if (found !== 1) throw new Error(`${find} occurs ${found} times in ${module}`);
  return source.slice(0, start) + text.replace(find, () => replace) + source.slice(end);
}
