/** Data in Lua source: LuaJIT reads the same data, however large it is. */
import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { type LuaData, luaTable } from "../../../src/render/lua-table.js";

/** Evaluates a Lua expression with the data as `data`, and returns what it prints. */
function inLua(data: LuaData, expression: string): string {
  const program = `local data = ${luaTable(data)}\nio.write(tostring(${expression}))`;
  const { stdout, stderr } = spawnSync("luajit", ["-"], { input: program, encoding: "utf8" });
  expect(stderr).toBe("");
  return stdout;
}

it("texts, numbers, flags, lists and names of any kind are kept", () => {
  const data = { end: 'a"\\\n\u0000é', "a-b": [1, 2.5, -3e20], on: true, empty: {} };
  const text = 'data["end"] .. " " .. data["a-b"][2] .. " " .. data["a-b"][3] .. " " .. tostring(data.on)';
  expect(inLua(data, text)).toBe('a"\\\n\u0000é 2.5 -3e+20 true');
  expect(inLua(data, "next(data.empty)")).toBe("nil");
});

it("an object that occurs several times is one table", () => {
  const base = { GET: 1 };
  const profile = { base, quantum: 64 };
  const data = {
    apps: [
      { id: "a", profile },
      { id: "b", profile },
      { id: "c", profile: { base, quantum: 1 } },
    ],
  };
  expect(inLua(data, "data.apps[1].profile == data.apps[2].profile")).toBe("true");
  expect(inLua(data, "data.apps[2].profile.base.GET + data.apps[3].profile.base.GET")).toBe("2");
  expect(luaTable(data).split("quantum = 64")).toHaveLength(2);
});

it("100,000 apps, the maximum of a configuration, are not too many constants", () => {
  const profile = { base: { GET: 1 }, quantum: 64 };
  const apps = Array.from({ length: 100_000 }, (_, i) => ({ id: `app-${i}`, burst: i, profile }));
  expect(inLua({ apps }, 'data.apps[100000].id .. " " .. #data.apps .. " " .. data.apps[1001].burst')).toBe(
    "app-99999 100000 1000",
  );
});
