/** Lines for a terminal: escaped, coloured only where wanted, cut and laid out to its width. */
import { describe, expect, it } from "vitest";
import {
  columnsOf,
  cutToFit,
  escaped,
  escapedData,
  jsonLine,
  lengthOf,
  printed,
  tableLines,
  toned,
  wrapped,
} from "../../../src/cli/printing.js";

/** Not a terminal. */
const plain = {};
const wide = Number.POSITIVE_INFINITY;

/** Lines end as they should; all other characters that a terminal obeys are out. */
const harmful = /(?!\n)[\p{Cc}\u202e\u2028]/u;

describe("untrusted text", () => {
  const nasty = "a\x1b[2Jb\r\nc\x07\u009b31m\u202e\u2028";

  it("cannot move the cursor, ring the bell, or change the text direction", () => {
    expect(escaped(nasty)).toBe("a\\u001b[2Jb\\u000d\\u000ac\\u0007\\u009b31m\\u202e\\u2028");
    expect(escaped(escaped(nasty))).toBe(escaped(nasty));
  });

  it("is escaped in all texts and names of a reply", () => {
    const reply = escapedData({ [nasty]: [nasty, 1, null, { text: nasty }] });
    expect(reply).toEqual({ [escaped(nasty)]: [escaped(nasty), 1, null, { text: escaped(nasty) }] });
  });

  it("is the same JSON value after escaping", () => {
    expect(JSON.parse(jsonLine({ nasty }))).toEqual({ nasty });
    expect(jsonLine({ nasty })).not.toMatch(harmful);
  });
});

describe("colour", () => {
  it("is used only in terminals that have colours", () => {
    const lines = [`a ${toned("bad", "b")}`];
    expect(printed(lines, { isTTY: true, hasColors: () => true })).toBe("a \x1b[31mb\x1b[39m\n");
    expect(printed(lines, { isTTY: true, hasColors: () => false })).toBe("a b\n");
    expect(printed(lines, plain)).toBe("a b\n");
  });
});

describe("a line", () => {
  it("is cut to the width with an ellipsis, however it is coloured", () => {
    const line = `abc${toned("good", "defgh")}ij`;
    expect(cutToFit(line, 10)).toEqual(line);
    expect(lengthOf(cutToFit(line, 6))).toBe(6);
    expect(cutToFit(line, 6)).toBe("abc\x1b[32mde\x1b[39m…");
    expect(lengthOf(cutToFit(line, 1))).toBe(1);
    expect(cutToFit(line, 0)).toBe("");
  });

  it("of running text is wrapped between words", () => {
    expect(wrapped("one two three four five six seven", 22, "  ")).toEqual([
      "  one two three four",
      "  five six seven",
    ]);
    expect(wrapped(`a ${"x".repeat(50)} b`, 30)).toEqual(["a", "x".repeat(50), "b"]);
    expect([columnsOf({ isTTY: true, columns: 120 }), columnsOf(plain)]).toEqual([120, wide]);
  });
});

describe("a table", () => {
  const titles = ["app", ">requests", "note"];
  const options = { spare: ["note"] };
  const rows = [
    ["video", "1,234", "busy"],
    ["a", "5", "-"],
  ];

  it("aligns names to the left and numbers to the right", () => {
    expect(printed(tableLines(titles, rows, wide, options), plain)).toBe(
      "app    requests  note\nvideo     1,234  busy\na             5  -\n",
    );
  });

  it("drops only spare columns in a narrow terminal", () => {
    expect(printed(tableLines(titles, rows, 20, options), plain)).toBe(
      "app    requests\nvideo     1,234\na             5\n",
    );
    expect(printed(tableLines(titles, rows, 5, options), plain)).toBe(
      "app    requests\nvideo     1,234\na             5\n",
    );
  });
});
