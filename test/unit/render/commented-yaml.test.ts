/** Data becomes YAML that reads back as the same data, with its comments before what they are about. */
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { commentedYaml, NOTE } from "../../../src/render/commented-yaml.js";

describe("YAML with comments", () => {
  it("reads back as the data, whatever its texts look like", () => {
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

  it("quotes what another reader could take for something else than text", () => {
    expect(commentedYaml("h", { a: "yes", b: "tollgate.example", c: "15s" })).toContain(
      '{ a: "yes", b: tollgate.example, c: "15s" }',
    );
  });

  it("has comments before what they are about, in lists and in sections", () => {
    const text = commentedYaml("the head", { "# why a": NOTE, a: 1, list: [{ "# why b\n# and more": NOTE, b: 2 }] });
    expect(text).toBe("# the head\n\n# why a\na: 1\nlist:\n  - # why b\n    # and more\n    b: 2\n");
  });

  it("leaves out what is not there", () => {
    expect(parse(commentedYaml("h", { a: undefined, b: 1 }))).toEqual({ b: 1 });
  });
});
