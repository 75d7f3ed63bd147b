/** Compares the documentation with the code: codes, store functions, modules, and the files that pages name. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { portableFolders } from "../../build/check.js";
import { LAYERS } from "../../build/check-structure.js";
import * as codes from "../../src/core/codes.js";
import { catalog } from "../../src/scripts/catalog.js";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

describe("the documentation", () => {
  it("list exactly the codes in the source, each with the same meaning", () => {
    const source = read("src/core/codes.ts");
    const meanings = [...source.matchAll(/\/\*\* (.*?) \*\/\nexport const \w+ = "(\w+)";/g)];
    const documented = [...read("docs/CODES.md").matchAll(/^\| `(\w+)` \| (?!\d)(.*) \|$/gm)];
    expect(meanings.map(([, , code]) => code)).toEqual(Object.values(codes));
    expect(documented.map(([, code, meaning]) => [code, meaning])).toEqual(
      meanings.map(([, meaning, code]) => [code, meaning]),
    );
  });

  it("list exactly the errors of the gateway, each with the same status and meaning", () => {
    const source = read("src/core/refusals.ts");
    const errors = [...source.matchAll(/^ {2}\/\*\* (.*?) \*\/\n {2}(\w+): (\d{3}),$/gm)];
    const documented = [...read("docs/CODES.md").matchAll(/^\| `(\w+)` \| (\d{3}) \| (.*) \|$/gm)];
    expect(errors.length).toBeGreaterThan(20);
    expect(documented.map(([, code, status, meaning]) => [code, status, meaning])).toEqual(
      errors.map(([, meaning, code, status]) => [code, status, meaning]),
    );
  });

  it("list every store function", () => {
    const table = read("docs/PROTOCOL.md");
    for (const name of Object.keys(catalog)) {
      const [first, ...rest] = name.split("-");
      const short = first === "emergency" ? `-${rest.join("-")}` : name;
      expect(table.includes(`\`${name}\``) || table.includes(`\`${short}\``), name).toBe(true);
    }
  });

  it("list the modules in the map, each above those that it may import", () => {
    const rows = [...read("docs/MAP.md").matchAll(/^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| /gm)].map(([, names]) =>
      [...names!.matchAll(/[a-z-]+/g)].map(([name]) => name),
    );
    const layers = LAYERS.map((layer) => Object.keys(layer).map((module) => module.split("/")[0]!));
    const ranks = rows.flat().map((name) => layers.findIndex((layer) => layer.includes(name)));
    expect(ranks).toEqual(ranks.toSorted((a, b) => a - b));
    expect(rows.flat().sort()).toEqual([...new Set(layers.flat())].sort());
  });

  it("name the folders of portable code, and the only file that differs in Lua", () => {
    const folders = portableFolders.map((folder) => folder.replace("src/", "`")).join("`, ");
    expect(read("docs/MAP.md")).toContain(`${folders}\` and the Lua planes are portable`);
    expect(read("CONTRIBUTING.md")).toContain(portableFolders.map((folder) => `\`${folder}\``).join(", "));
    const twins = readdirSync(new URL("../../src", import.meta.url), { recursive: true, encoding: "utf8" });
    expect(twins.filter((path) => path.endsWith("-lua.ts"))).toEqual(["core/platform-lua.ts"]);
  });

  it("are right that unit and integration tests mirror the source", () => {
    const folders = (path: string) =>
      readdirSync(new URL(`../../${path}`, import.meta.url), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name);
    const tested = [...folders("src"), ...folders("."), ...folders("test")];
    expect([...folders("test/unit"), ...folders("test/integration")].filter((name) => !tested.includes(name))).toEqual(
      [],
    );
  });

  it("is right that no other module reads the configuration itself", () => {
    const readers = ["cli", "config", "render", "service", "simulate"];
    const reading = readdirSync(new URL("../../src", import.meta.url), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts") && /config\/(schema|load|live\/)/.test(read(`src/${path}`)))
      .map((path) => path.split("/")[0]!);
    // Files inside of config import each other by relative paths.
    expect([...new Set([...reading, "config"])].sort()).toEqual(readers);
    for (const page of ["docs/MAP.md", "docs/GLOSSARY.md", "CONTRIBUTING.md"]) {
      expect(read(page).replaceAll(/\s+/g, " "), page).toMatch(
        /`cli`, `service`, `simulate` and `render` read the configuration/,
      );
    }
  });

  it("name only files and folders that exist, with placeholders resolved to at least one file", () => {
    const roots = "src|test|build|docs|bench|fuzz|soak|deploy|monitoring|examples|dashboard";
    const docs = readdirSync(new URL("../../docs", import.meta.url), { recursive: true, encoding: "utf8" });
    const pages = ["CONTRIBUTING.md", "README.md", ...docs.filter((p) => p.endsWith(".md")).map((p) => `docs/${p}`)];
    const named = pages.flatMap((page) =>
      [...read(page).matchAll(new RegExp(`\`((?:${roots})/[^\`\\s]*)\``, "g"))].map(([, path]) => path!),
    );
    expect(named.length).toBeGreaterThan(100);
    const missing = named.filter((path) => {
      const known = path.replace(/[<{*].*$/, "").replace(/[^/]*$/, (name) => (path.includes("*") ? "" : name));
      return !existsSync(new URL(`../../${known}`, import.meta.url));
    });
    expect(missing).toEqual([]);
  });

  it("name the first command within ten lines of the README", () => {
    expect(read("README.md").split("\n").slice(0, 10).join("\n")).toContain("make run");
  });

  it("give a formula for the CPU of Redis that agrees with the measured table, within a third", () => {
    const formula = /entries per second × (\d+) µs \+ calls per second × (\d+) µs/.exec(read("docs/guides/sizing.md"))!;
    const [perEntry, perCall] = [Number(formula[1]), Number(formula[2])];
    const rows = [
      ...read("docs/PLANNING.md").matchAll(/^\| [\d,]+ \| [\d,]+ \| \d+ \| \d+ \| (\S+) \| (\S+) \| (\S+) %/gm),
    ];
    expect(rows.length).toBeGreaterThan(40);
    const number = (text: string | undefined) => Number(text!.replaceAll(",", ""));
    for (const [row, calls, entries, percent] of rows) {
      const computed = (number(entries) * perEntry + number(calls) * perCall) / 1e4;
      expect(computed / number(percent), row).toBeGreaterThan(2 / 3);
      expect(computed / number(percent), row).toBeLessThan(4 / 3);
    }
  });
});
