/** Results of generated functions in LuaJIT and in Node, as comparable text. */
import { execFileSync } from "node:child_process";

/** Any value as one line of text, the same from Node and from Lua. */
const SHOW = `local function show(value)
  if type(value) == "number" then return string.format("%.17g", value) end
  if type(value) ~= "table" then return tostring(value) end
  if value.level ~= nil then return show(value.level) .. "/" .. show(value.limit) end
  local items = {}
  for i, item in ipairs(value) do items[i] = show(item) end
  return table.concat(items, ",")
end`;

export function show(value: unknown): string {
  if (Array.isArray(value)) return value.map(show).join(",");
  if (typeof value !== "object" || value === null) return String(value);
  const { level, limit } = value as { level: number; limit: number };
  return `${level}/${limit}`;
}

export function answers(code: string, calls: [name: string, args: number[]][]): string[] {
  const lines = calls.map(([name, args]) => `print(show(core.${name}(${args.join(", ")})))`);
  const program = `local core = (function()\n${code}end)()\n${SHOW}\n${lines.join("\n")}\n`;
  return execFileSync("luajit", ["-"], { input: program, encoding: "utf8" }).trimEnd().split("\n");
}
