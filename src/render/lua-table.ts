/** Serialises plain data as Lua source for `dofile`. Deterministic. */

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const RESERVED = new Set(
  "and break do else elseif end false for function goto if in local nil not or repeat return then true until while".split(
    " ",
  ),
);

export type LuaData = string | number | boolean | readonly LuaData[] | { readonly [key: string]: LuaData };

export function luaTable(data: LuaData, indent = ""): string {
  if (typeof data === "string") return luaText(data);
  if (typeof data === "boolean" || Number.isFinite(data)) return String(data);
  if (typeof data === "number") throw new Error(`${data} is not a valid number in a configuration`);
  const nameOf = (key: string) => (IDENTIFIER.test(key) && !RESERVED.has(key) ? key : `[${luaText(key)}]`);
  const deeper = `${indent}    `;
  const lines = Array.isArray(data)
    ? data.map((item: LuaData) => `${deeper}${luaTable(item, deeper)},\n`)
    : Object.entries(data as Record<string, LuaData>).map(
        ([key, value]) => `${deeper}${nameOf(key)} = ${luaTable(value, deeper)},\n`,
      );
  return lines.length === 0 ? "{}" : `{\n${lines.join("")}${indent}}`;
}

/** Escapes every byte that is not printable ASCII, so that no text can end the literal. */
function luaText(text: string): string {
  const escaped = [...Buffer.from(text, "utf8")].map((byte) => {
    const plain = byte >= 32 && byte < 127 && byte !== 34 && byte !== 92;
    return plain ? String.fromCharCode(byte) : `\\${String(byte).padStart(3, "0")}`;
  });
  return `"${escaped.join("")}"`;
}
