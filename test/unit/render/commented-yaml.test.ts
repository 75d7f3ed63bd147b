/** Data becomes YAML that parses to the same data, with comments before their entries. */
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { commentedYaml, NOTE } from "../../../src/render/commented-yaml.js";

describe("YAML with comments", () => {
  it("parses to the same data, for any strings", () => {
    const odd = [
      "yes",
      "no",
      "on",
      "null",
      "~",
      "1e3",
      "0x10",
      "1s",
      "",
      " ",
      "a: b",
      "#c",
      '"',
      "\\",
      "\n",
      "%REQ(:A)%",
      "*",
      "@x",
    ];
    const data = {
      texts: odd,
      numbers: [0, 1.5, 1_000_000],
      flags: [true, false],
      none: {},
      empty: [],
      deep: [{ a: { b: [1] } }],
    };
    expect(parse(commentedYaml("head", data))).toEqual(data);
  });

  it("quotes strings that other parsers could read as another type", () => {
    expect(commentedYaml("h", { a: "yes", b: "tollgate.example", c: "15s" })).toContain(
      '{ a: "yes", b: tollgate.example, c: "15s" }',
    );
  });

  it("has comments before their entries, in lists and sections", () => {
    const text = commentedYaml("the head", { "# why a": NOTE, a: 1, list: [{ "# why b\n# and more": NOTE, b: 2 }] });
    expect(text).toBe("# the head\n\n# why a\na: 1\nlist:\n  - # why b\n    # and more\n    b: 2\n");
  });

  it("omits undefined entries", () => {
    expect(parse(commentedYaml("h", { a: undefined, b: 1 }))).toEqual({ b: 1 });
  });
});
