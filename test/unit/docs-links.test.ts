/** Links, anchors and images in all pages exist, and configurations in them are valid. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { fromRoot } from "../../build/paths.js";
import { optionSchema } from "../../src/config/json-schema.js";
import { readConfig } from "../../src/config/load.js";
import { describeProblem } from "../../src/config/problem.js";

function pagesBelow(folder: string): string[] {
  return readdirSync(fromRoot(folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return pagesBelow(path);
    return entry.name.endsWith(".md") ? [path] : [];
  });
}

const pages = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  "bench/README.md",
  ...pagesBelow("docs"),
  ...pagesBelow("examples"),
];
const read = (path: string) => readFileSync(fromRoot(path), "utf8");
const withoutCode = (text: string) => text.replace(/^( *)(`{3,}).*?^ *\2 *$/gms, "").replace(/`[^`\n]*`/g, "code");

/** As GitHub and the site make them. */
function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>();
  const headings = [...text.replace(/^( *)(`{3,}).*?^ *\2 *$/gms, "").matchAll(/^#{1,6} (.*)$/gm)].map(
    ([, title = ""]) => {
      const plain = title.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "");
      const slug = plain
        .trim()
        .toLowerCase()
        .replace(/[^\p{L}\p{N}_ -]/gu, "")
        .replaceAll(" ", "-");
      const count = seen.get(slug) ?? 0;
      seen.set(slug, count + 1);
      return count === 0 ? slug : `${slug}-${count}`;
    },
  );
  return new Set(headings);
}

describe("links", () => {
  it.each(pages)("%s", (page) => {
    const text = withoutCode(read(page));
    const links = [...text.matchAll(/\]\(([^)\s]+)\)/g), ...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(
      ([, link = ""]) => link,
    );
    const broken = links.filter((link) => {
      if (/^(https?:|mailto:)/.test(link)) return false;
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? page : relative(fromRoot(""), join(fromRoot(dirname(page)), path));
      if (!existsSync(fromRoot(target))) return true;
      if (anchor === undefined || anchor === "" || statSync(fromRoot(target)).isDirectory()) return false;
      return target.endsWith(".md") && !anchorsOf(read(target)).has(anchor);
    });
    expect(broken).toEqual([]);
  });
});

const OPTIONS = new Set(Object.keys(optionSchema().properties ?? {}));
/** Every variable of the environment that the page names is set, each to its own value. */
const variablesIn = (text: string) =>
  Object.fromEntries(
    [...text.matchAll(/\$\{([A-Z_]+)/g)].map(([, name = ""]) => [name, `the-value-of-${name.toLowerCase()}`]),
  );

/** A part of a configuration gets what it refers to. */
function completed(part: Record<string, unknown>): Record<string, unknown> {
  const routes = (part.routes ?? []) as { upstream: string; limits?: string[] }[];
  const upstreams = { ...(part.upstreams as object) };
  const names = new Set(((part.limits ?? []) as { name: string }[]).map(({ name }) => name));
  const missing = routes.flatMap(({ limits = [] }) => limits).filter((name) => !names.has(name));
  return {
    ...part,
    ...(routes.length > 0 && {
      upstreams: {
        ...Object.fromEntries(routes.map(({ upstream }) => [upstream, { targets: ["127.0.0.1:1"] }])),
        ...upstreams,
      },
    }),
    ...(missing.length > 0 && {
      limits: [...((part.limits ?? []) as object[]), ...missing.map((name) => ({ name, rate: "1/s" }))],
    }),
  };
}

const configurations = pages
  .filter((page) => page !== "CHANGELOG.md")
  .flatMap((page) =>
    [...read(page).matchAll(/^( *)```yaml[^\n]*\n(.*?)^ *```/gms)].flatMap(([, indent = "", block = ""], i) => {
      const text = block.replaceAll(new RegExp(`^${indent}`, "gm"), "");
      const part: unknown = parse(text);
      const isOurs = typeof part === "object" && part !== null && Object.keys(part).every((name) => OPTIONS.has(name));
      return isOurs ? [[`${page}, configuration ${i + 1}`, part as Record<string, unknown>] as const] : [];
    }),
  );

describe("configurations", () => {
  it("are found", () => expect(configurations.length).toBeGreaterThan(20));

  it.each(configurations)("%s", (_place, part) => {
    const text = JSON.stringify(completed(part));
    const { problems } = readConfig(text, variablesIn(text));
    expect(problems.map(describeProblem)).toEqual([]);
  });
});
