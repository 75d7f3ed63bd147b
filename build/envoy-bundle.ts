/** The Lua that Envoy runs: `src/planes/envoy` and the core it decides with. Its settings stand before it in the same file. */
import { flattenToLua } from "./lua.js";

const head = `-- tollgate for Envoy, generated from src/planes/envoy/main.ts: change it there
local ffi = require("ffi")
local luaString, luaTable, luaMath, luaBit = string, table, math, require("bit")
local toNumber, hexNumber, toText = tonumber, tonumber, tostring
`;

/** Envoy looks for its functions among the globals. */
const ending = "envoy_on_request = onRequest\nenvoy_on_response = onResponse";

export function envoyBundle(): string {
  const { code } = flattenToLua({
    entry: "src/planes/envoy/main.ts",
    target: "JIT",
    folders: ["src/planes/envoy", "src/planes/nginx", "src/planes/lua"],
    ending,
  });
  return head + code;
}
