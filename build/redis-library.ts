/** The Redis function library: all scripts of the catalog in one bundle, each registered with its flags. */
import { createHash } from "node:crypto";
import { catalog, type ScriptName } from "../src/scripts/catalog.js";
import { functionName } from "../src/store/function-names.js";
import { luaBundle } from "./lua-bundle.js";

/** The name contains a hash of the content, so that two versions can be loaded at the same time. */
export function redisLibrary(): string {
  const bundle = luaBundle({ entry: "src/scripts/catalog.ts", target: "5.1" });
  const hash = createHash("sha256").update(libraryText("", bundle)).digest("hex").slice(0, 12);
  return libraryText(`tollgate_${hash}`, bundle);
}

/**
 * While a library is loaded, Redis 7.0 provides neither `math` nor `string` nor `table`, so the first call builds the
 * bundle. Locals are faster than globals, which Redis looks up through a metatable. There is no `require` in Redis, and
 * reading an undefined global is an error.
 */
function libraryText(name: string, bundle: string): string {
  return `#!lua name=${name}
-- tollgate, generated from src/scripts: change it there

local function build(...)
local require
local math, string, table = math, string, table
local ipairs, select, tonumber, type, unpack = ipairs, select, tonumber, type, unpack
${bundle}
end

local scripts
local function register(script, name, flags)
    redis.register_function{
        function_name = name,
        flags = flags,
        callback = function(keys, args)
            scripts = scripts or build().catalog
            return scripts[script].run(redis, keys, args)
        end
    }
end

${registrations(name)}
`;
}

function registrations(name: string): string {
  return Object.entries(catalog)
    .map(([script, { flags }]) => {
      const list = flags === "" ? "{}" : `{"${flags}"}`;
      return `register("${script}", "${functionName(name, script as ScriptName)}", ${list})`;
    })
    .join("\n");
}
