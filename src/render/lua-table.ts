/** Serialises plain data as Lua source for `dofile`. Deterministic. */

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const RESERVED = new Set(
  "and break do else elseif end false for function goto if in local nil not or repeat return then true until while".split(
    " ",
  ),
);

export type LuaData = string | number | boolean | readonly LuaData[] | { readonly [key: string]: LuaData };

/** LuaJIT allows 65,536 constants per function, and each table is one: longer lists are made by several functions. */
const MOST_ITEMS = 1_000;

/** An expression. An object that occurs several times, such as the cost profile of many apps, is one table. */
export function luaTable(data: LuaData): string {
  const shared = new Map(repeated(data).map((object, i) => [object, `shared[${i + 1}]`]));
  if (shared.size === 0) return written(data, "", shared);
  const list = written([...shared.keys()], "    ", new Map());
  return `(function()\n    local shared = ${list}\n    return ${written(data, "    ", shared)}\nend)()`;
}

type LuaObject = Exclude<LuaData, string | number | boolean>;

/** @param shared expressions of the objects that are not written again */
function written(data: LuaData, indent: string, shared: ReadonlyMap<LuaObject, string>): string {
  if (typeof data === "string") return luaText(data);
  if (typeof data === "boolean" || Number.isFinite(data)) return String(data);
  if (typeof data === "number") throw new Error(`${data} is not a valid number in a configuration`);
  const known = shared.get(data);
  if (known !== undefined) return known;
  if (Array.isArray(data) && data.length > MOST_ITEMS) return joined(data, indent, shared);
  const nameOf = (key: string) => (IDENTIFIER.test(key) && !RESERVED.has(key) ? key : `[${luaText(key)}]`);
  const deeper = `${indent}    `;
  const lines = Array.isArray(data)
    ? data.map((item: LuaData) => `${deeper}${written(item, deeper, shared)},\n`)
    : Object.entries(data as Record<string, LuaData>).map(
        ([key, value]) => `${deeper}${nameOf(key)} = ${written(value, deeper, shared)},\n`,
      );
  return lines.length === 0 ? "{}" : `{\n${lines.join("")}${indent}}`;
}

/** A long list as an expression. */
function joined(items: LuaData[], indent: string, shared: ReadonlyMap<LuaObject, string>): string {
  const deeper = `${indent}    `;
  const parts: string[] = [];
  for (let from = 0; from < items.length; from += MOST_ITEMS) {
    const part = written(items.slice(from, from + MOST_ITEMS), `${deeper}    `, shared);
    parts.push(`${deeper}for _, item in ipairs((function() return ${part} end)()) do list[#list + 1] = item end\n`);
  }
  return `(function()\n${deeper}local list = {}\n${parts.join("")}${deeper}return list\n${indent}end)()`;
}

/** The objects that occur more than once, in the order of their first occurrence. */
function repeated(data: LuaData): LuaObject[] {
  const times = new Map<LuaObject, number>();
  const visit = (item: LuaData) => {
    if (typeof item !== "object") return;
    const before = times.get(item) ?? 0;
    times.set(item, before + 1);
    if (before === 0) for (const inner of Object.values(item) as LuaData[]) visit(inner);
  };
  visit(data);
  return [...times].filter(([, count]) => count > 1).map(([object]) => object);
}

/** Escapes every byte that is not printable ASCII, so that no text can end the literal. */
function luaText(text: string): string {
  const escaped = [...Buffer.from(text, "utf8")].map((byte) => {
    const plain = byte >= 32 && byte < 127 && byte !== 34 && byte !== 92;
    return plain ? String.fromCharCode(byte) : `\\${String(byte).padStart(3, "0")}`;
  });
  return `"${escaped.join("")}"`;
}
