/** The Lua that nginx runs: `src/planes/nginx` and the core it decides with, as one chunk that returns its phases. */
import { flattenToLua } from "./lua.js";

const head = `-- tollgate for nginx, generated from src/planes/nginx/main.ts: change it there
local ffi = require("ffi")
local base = require("resty.core.base")
local semaphore = require("ngx.semaphore")
local luaString, luaTable, luaMath, toNumber, toText = string, table, math, tonumber, tostring
local toInteger = require("bit").tobit
`;

export function nginxBundle(): string {
  const { code } = flattenToLua({
    entry: "src/planes/nginx/main.ts",
    target: "JIT",
    folders: ["src/planes/nginx"],
  });
  return head + code;
}
