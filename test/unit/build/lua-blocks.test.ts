/** Modules in functions of their own: they see what stands before them, and hand out what is used behind them. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { setApart } from "../../../build/lua-blocks.js";

const module = (name: string, text: string) => `-- src/${name}.ts\n${text}\n`;
const hidden = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => `local function hidden${from + i}() return ${from + i} end`).join("\n");

function run(code: string): string {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-lua-"));
  try {
    writeFileSync(join(dir, "a.lua"), code);
    return execFileSync("luajit", [join(dir, "a.lua")], { encoding: "utf8", stdio: "pipe" }).trim();
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const program =
  "local start = 1\n" +
  module("first", `${hidden(0, 150)}\nlocal function first() return start + hidden149() end`) +
  module("second", `${hidden(150, 150)}\nlocal function second() return first() + hidden299() end`) +
  module("main", "print(second(), first())");

describe("modules set apart", () => {
  it("may have more than 200 locals together, and mean the same", () => {
    expect(() => run(program)).toThrow(/more than 200 local variables/);
    expect(run(setApart(program))).toBe("449\t150");
  });

  it("share a function where they are one group, which shows nothing of what they alone use", () => {
    const grouped = setApart(
      program.replaceAll("hidden149()", "0").replace(/local function hidden1[0-4]\d.*\n/g, ""),
      (file) => (file === "src/main.ts" ? file : "group"),
    );
    expect(grouped.match(/\(function\(\)$/gm)).toHaveLength(1);
    expect(grouped).toMatch(/^local first, second = \(function\(\)$/m);
  });
});
