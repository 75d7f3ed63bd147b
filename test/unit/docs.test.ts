/** The documents tell what the code does: codes, scripts and keys are compared. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import * as codes from "../../src/core/codes.js";
import { catalog } from "../../src/scripts/catalog.js";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

describe("the documents", () => {
  it("list exactly the codes there are, each with the meaning that the source gives", () => {
    const source = read("src/core/codes.ts");
    const meanings = [...source.matchAll(/\/\*\* (.*?) \*\/\nexport const \w+ = "(\w+)";/g)];
    const documented = [...read("docs/CODES.md").matchAll(/^\| `(\w+)` \| (.*) \|$/gm)];
    expect(meanings.map(([, , code]) => code)).toEqual(Object.values(codes));
    expect(documented.map(([, code, meaning]) => [code, meaning])).toEqual(
      meanings.map(([, meaning, code]) => [code, meaning]),
    );
  });

  it("name every script", () => {
    const table = read("docs/ARCHITECTURE.md");
    for (const name of Object.keys(catalog)) {
      const [first, ...rest] = name.split("-");
      const short = first === "emergency" ? `-${rest.join("-")}` : name;
      expect(table.includes(`\`${name}\``) || table.includes(`\`${short}\``), name).toBe(true);
    }
  });

  it("reach the first command within ten lines", () => {
    expect(read("README.md").split("\n").slice(0, 10).join("\n")).toContain("make run");
  });
});
