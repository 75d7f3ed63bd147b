/** Lines for a terminal: escaped, coloured only where wanted, cut and laid out to its width. */
import { describe, expect, it } from "vitest";
import {
  cutToFit,
  escaped,
  jsonLine,
  type Line,
  lengthOf,
  paint,
  printed,
  styleOf,
  tableLines,
  toned,
  wrapped,
} from "../../../src/cli/printing.js";

const plain = { colour: false, columns: Number.POSITIVE_INFINITY };
const wide = (columns: number) => ({ colour: false, columns });

/** Lines end as they should; all other characters that a terminal obeys are out. */
const harmful = /(?!\n)[\p{Cc}\u202e\u2028]/u;

describe("untrusted text", () => {
  const nasty = "a\x1b[2Jb\r\nc\x07\u009b31m\u202e\u2028";

  it("cannot move the cursor, ring the bell, or change the text direction", () => {
    expect(escaped(nasty)).toBe("a\\u001b[2Jb\\u000d\\u000ac\\u0007\\u009b31m\\u202e\\u2028");
    expect(escaped(escaped(nasty))).toBe(escaped(nasty));
  });

  it("is escaped in lines and tables, with and without colour", () => {
    const lines: Line[] = [[nasty, toned("bad", nasty)], ...tableLines([{ title: "x" }], [[nasty]], plain)];
    expect(printed(lines, plain)).not.toMatch(harmful);
    const coloured = paint([toned("bad", nasty)], true);
    expect(coloured.replace("\x1b[31m", "").replace("\x1b[0m", "")).toBe(escaped(nasty));
  });

  it("is the same JSON value after escaping", () => {
    expect(JSON.parse(jsonLine({ nasty }))).toEqual({ nasty });
    expect(jsonLine({ nasty })).not.toMatch(harmful);
  });
});

describe("colour", () => {
  it("is used only in terminals, and not with NO_COLOR or a dumb terminal", () => {
    const terminal = { isTTY: true, columns: 120 };
    expect(styleOf(terminal, {})).toEqual({ colour: true, columns: 120 });
    expect(styleOf(terminal, { NO_COLOR: "1" })).toEqual({ colour: false, columns: 120 });
    expect(styleOf(terminal, { NO_COLOR: "" }).colour).toBe(true);
    expect(styleOf(terminal, { TERM: "dumb" }).colour).toBe(false);
    expect(styleOf({}, {})).toEqual(plain);
  });
});

describe("a line", () => {
  it("is cut to the width with an ellipsis, however it is coloured", () => {
    const line: Line = ["abc", toned("good", "defgh"), "ij"];
    expect(cutToFit(line, 10)).toEqual(line);
    expect(paint(cutToFit(line, 6), false)).toBe("abcde…");
    expect(lengthOf(cutToFit(line, 6))).toBe(6);
    expect(paint(cutToFit(line, 6), true)).toBe("abc\x1b[32mde\x1b[0m…");
    expect(paint(cutToFit(line, 1), false)).toBe("…");
    expect(cutToFit(line, 0)).toEqual([]);
  });

  it("of running text is wrapped between words", () => {
    expect(printed(wrapped("one two three four five six seven", wide(22), "  "), plain)).toBe(
      "  one two three four\n  five six seven\n",
    );
    expect(printed(wrapped(`a ${"x".repeat(50)} b`, wide(30)), plain)).toBe(`a\n${"x".repeat(50)}\nb\n`);
  });
});

describe("a table", () => {
  const columns = [{ title: "app" }, { title: "requests", right: true }, { title: "note", spare: 1 }];
  const rows = [
    ["video", "1,234", "busy"],
    ["a", "5", "-"],
  ];

  it("aligns names to the left and numbers to the right", () => {
    expect(printed(tableLines(columns, rows, plain), plain)).toBe(
      "app    requests  note\nvideo     1,234  busy\na             5  -\n",
    );
  });

  it("drops only spare columns in a narrow terminal", () => {
    expect(printed(tableLines(columns, rows, wide(20)), plain)).toBe(
      "app    requests\nvideo     1,234\na             5\n",
    );
    expect(printed(tableLines(columns, rows, wide(5)), plain)).toBe(
      "app    requests\nvideo     1,234\na             5\n",
    );
  });
});
