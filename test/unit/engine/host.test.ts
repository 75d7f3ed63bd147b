import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { fromRoot } from "../../../build/paths.js";

it("CONTRIBUTING lists exactly the functions that a data plane implements", () => {
  const source = readFileSync(fromRoot("src/engine/host.ts"), "utf8");
  const members = [...source.matchAll(/^ {2}(\w+)(?:\(this|:)/gm)].map(([, name]) => name);
  const text = readFileSync(fromRoot("CONTRIBUTING.md"), "utf8");
  const rows = [...text.split("**a data plane**")[1]!.matchAll(/^ {3}\| (?!what|---)\w.*$/gm)].join("\n");
  const listed = [...rows.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  expect(members.length).toBeGreaterThan(10);
  expect(listed.sort()).toEqual(members.sort());
});
