/** The Lua that nginx runs: `src/planes/nginx` and the core it decides with, as one chunk that returns its phases. */
import { flattenToLua } from "./lua.js";
import { setApart } from "./lua-blocks.js";

const head = `-- tollgate for nginx, generated from src/planes/nginx/main.ts: change it there
local ffi = require("ffi")
local base = require("resty.core.base")
local semaphore = require("ngx.semaphore")
local luaString, luaTable, luaMath, toNumber, toText = string, table, math, tonumber, tostring
local jitOptions = require("jit.opt")
`;

export function nginxBundle(): string {
  const { code } = flattenToLua({
    entry: "src/planes/nginx/main.ts",
    target: "JIT",
    folders: ["src/planes/nginx", "src/planes/lua"],
  });
  return setApart(head + code, groupOf);
}

/** What belongs together shares a function; any other module has its own. */
function groupOf(file: string): string {
  if (/\/nginx\/http\/(memory|variables|request|response|response-headers)\.ts$/.test(file)) return "http";
  return file.startsWith("src/planes/nginx/sockets/") ? "sockets" : file;
}
