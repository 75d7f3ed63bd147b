/** The commands of the guides and of the reference do what the pages say. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { findEnvoy } from "../support/find-envoy.js";
import { isAsShown, runPage, stepsOf } from "../support/page-commands.js";

const pages = [
  "README.md",
  ...["guides", "reference"].flatMap((folder) =>
    readdirSync(fromRoot(`docs/${folder}`)).map((name) => `docs/${folder}/${name}`),
  ),
]
  .filter((page) => stepsOf(readFileSync(fromRoot(page), "utf8")).some((step) => "command" in step))
  .filter((page) => findEnvoy() !== undefined || !page.endsWith("envoy.md"));

describe("the commands of", () => {
  it.each(pages)("%s", async (page) => {
    expect(await runPage(page)).toBeGreaterThan(1);
  });
});

describe("the comparison with a page", () => {
  it("takes … for anything, and a line of it for any lines", () => {
    expect(isAsShown("a 1\nb\n", ["a …", "b"], false)).toBe(true);
    expect(isAsShown("a 1\nx\ny\nb\n", ["a …", "…", "b"], false)).toBe(true);
    expect(isAsShown("a 1\nx\nb\n", ["a …", "b"], false)).toBe(false);
    expect(isAsShown("", ["a"], false)).toBe(false);
    expect(isAsShown("200 429 ", ["200 …429…"], false)).toBe(true);
  });

  it("reads commands with continuation lines, their output, and files", () => {
    const page = [
      "```console",
      "$ a \\",
      "  b",
      "out",
      "$ c &",
      "```",
      "```yaml [x.yaml]",
      "k: 1",
      "```",
      "```sh",
      "d",
      "```",
    ].join("\n");
    expect(stepsOf(page)).toEqual([
      { line: 2, command: "a \\\n  b", expected: ["out"] },
      { line: 5, command: "c &", expected: [] },
      { line: 7, name: "x.yaml", text: "k: 1\n" },
    ]);
  });
});
