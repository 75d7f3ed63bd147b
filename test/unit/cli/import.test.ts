/** `tollgate import ratelimit` converts rules, lists differences, and writes nothing if a file is invalid. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { readConfig } from "../../../src/config/load.js";
import { descriptorOptions } from "../../../src/config/options/service.js";
import { compileRules } from "../../../src/limiter/descriptors/rules.js";
import { entries } from "../limiter/descriptors/rule-examples.js";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "tollgate-import-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

const importing = (...words: string[]) => runCommandLine(["import", "ratelimit", ...words]);

const SHOP = `
domain: shop
descriptors:
  - key: tenant
    value: 42
    rate_limit: { unit: MINUTE, requests_per_unit: 60, name: tenant }
    descriptors:
      - key: path
        value: "/v1/*"
        share_threshold: true
        rate_limit:
          unit: day
          requests_per_unit: 5
          replaces: [{ name: tenant }]
      - key: path
        shadow_mode: true
        metadata: { owner: "\${TEAM}" }
        rate_limit: { unit: week, requests_per_unit: 7 }
  - key: tenant
    detailed_metric: true
    rate_limit: { unlimited: true }
  - key: api
    value: ""
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 4294967295 }
`;

describe("a valid file", () => {
  it("becomes a configuration in which every descriptor has the same limit", async () => {
    const { text, exitCode, complaint } = await importing(file("shop.yaml", SHOP));
    expect(exitCode).toBe(0);
    const { config, problems } = readConfig(text, {});
    expect(problems).toEqual([]);
    const { match } = compileRules(descriptorOptions(config!).domains);
    const met = (...all: string[]) => match("shop", entries(...all));
    expect(met("tenant=42")).toMatchObject({ perUnit: 60, unit: "minute", name: "tenant", shadow: false });
    expect(met("tenant=42", "path=/v1/a")).toMatchObject({ perUnit: 5, unit: "day", replaces: ["tenant"] });
    expect(met("tenant=42", "path=/v1/a")?.steps[1]).toMatchObject({ value: "/v1/*", shared: true });
    // What looks like one of our variables is none.
    expect(met("tenant=42", "path=/")).toMatchObject({
      unit: "week",
      shadow: true,
      metadata: { owner: `$${"{TEAM}"}` },
    });
    expect(met("tenant=7")).toMatchObject({ unlimited: true });
    expect(met("api=x")).toMatchObject({ perUnit: 1_000_000_000, unit: "year", quota: true });
    expect(complaint).toContain("shop.yaml: descriptors[1].detailed_metric: metrics are counted by rule");
    expect(complaint).toContain("shop.yaml: descriptors[2].rate_limit.requests_per_unit: the maximum is 1000000000");
    expect(text).toContain("# Differences:");
  });

  it("is written atomically and deterministically to --out", async () => {
    const from = file("again.yaml", SHOP);
    const out = join(dir, "rules.yaml");
    const first = await importing(from, "--out", out);
    expect(first).toMatchObject({ exitCode: 0, text: `${out}\n` });
    const written = readFileSync(out, "utf8");
    await importing(from, "--out", out);
    expect(readFileSync(out, "utf8")).toBe(written);
    expect(readConfig(written, {}).problems).toEqual([]);
    expect(readdirSync(dir).filter((name) => name.startsWith("rules"))).toEqual(["rules.yaml"]);
    expect(await runCommandLine(["check-config", out])).toMatchObject({ exitCode: 0 });
  });

  it("can be merged with others of the same domain", async () => {
    const one = file(
      "one.yaml",
      "{domain: d, descriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}]}",
    );
    const two = file(
      "two.yaml",
      "{domain: d, descriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 2}}]}",
    );
    const other = file("other.yaml", "{domain: e, descriptors: [{key: a}]}");
    expect(await importing(one, two, other)).toMatchObject({
      ...{ exitCode: 1, text: "" },
      complaint: `nothing was imported\n  ${two}: domain: ${one} has the same domain; use --merge-domains to merge them`,
    });
    const { text, exitCode } = await importing(one, two, other, "--merge-domains");
    expect(exitCode).toBe(0);
    const { config } = readConfig(text, {});
    expect(config?.rate_limits.map(({ domain, descriptors }) => [domain, descriptors.length])).toEqual([
      ["d", 2],
      ["e", 1],
    ]);
    const same = await importing(
      one,
      file("three.yaml", "{domain: d, descriptors: [{key: c}, {key: a}]}"),
      "--merge-domains",
    );
    expect(same.complaint).toContain('three.yaml: descriptors[1]: duplicate descriptor "a"');
  });
});

describe("an invalid file", () => {
  it.each([
    [
      "an unknown name",
      "{domain: d, descriptors: [{key: a, rate_limits: {}}]}",
      "descriptors[0].rate_limits: unknown name; did you mean rate_limit?",
    ],
    [
      "no unit",
      "{domain: d, descriptors: [{key: a, rate_limit: {requests_per_unit: 1}}]}",
      "descriptors[0].rate_limit.unit: is missing",
    ],
    ["one of our names", "{domain: d, descriptors: [{key: a, priority: 1}]}", "descriptors[0].priority: unknown name"],
    ["no domain", "{descriptors: [{key: a}]}", "domain: is missing"],
    ["an empty domain", '{domain: "", descriptors: []}', "domain: is missing"],
    ["the domain of the apps", "{domain: tollgate}", "domain: tollgate is reserved for apps; use another name"],
    ["no key", "{domain: d, descriptors: [{value: a}]}", "descriptors[0].key: is missing"],
    [
      "a list of texts",
      "{domain: d, descriptors: [a]}",
      "descriptors[0]: must be a section with key, value, rate_limit",
    ],
    ["a section for a list", "{domain: d, descriptors: {key: a}}", "descriptors: must be a list"],
    [
      "an unknown unit",
      "{domain: d, descriptors: [{key: a, rate_limit: {unit: foo, requests_per_unit: 1}}]}",
      'descriptors[0].rate_limit.unit: must be second or minute or hour or day or week or month or year (is "foo")',
    ],
    [
      "unlimited with a unit",
      "{domain: d, descriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]}",
      'descriptors[0].rate_limit.unit: must not be set if unlimited is true (is "day")',
    ],
    [
      "a negative limit",
      "{domain: d, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: -1}}]}",
      "descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 1000000000 (is -1)",
    ],
    [
      "a quoted limit",
      '{domain: d, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: "5"}}]}',
      "descriptors[0].rate_limit.requests_per_unit: must be an integer from 0 to 4294967295",
    ],
    [
      "a quoted flag",
      '{domain: d, descriptors: [{key: a, shadow_mode: "true"}]}',
      "descriptors[0].shadow_mode: must be true or false",
    ],
    [
      "the same twice",
      "{domain: d, descriptors: [{key: a, value: b}, {key: a, value: b}]}",
      'descriptors[1]: duplicate descriptor "a_b"',
    ],
    [
      "the same twice, below",
      "{domain: d, descriptors: [{key: a, descriptors: [{key: x}, {key: x}]}]}",
      'descriptors[0].descriptors[1]: duplicate descriptor "x"',
    ],
    [
      "replacing itself",
      "{domain: d, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}}]}",
      "descriptors[0].rate_limit.replaces[0]: must name another limit",
    ],
    [
      "replacing nothing",
      "{domain: d, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}}]}",
      "descriptors[0].rate_limit.replaces[0]: is missing",
    ],
    [
      "sharing what is no pattern",
      "{domain: d, descriptors: [{key: a, value: b, share_threshold: true}]}",
      "descriptors[0].share_threshold: requires a value with a *",
    ],
    ["a name given twice", "domain: d\ndomain: e\n", "line 2, column 1: this name occurs twice"],
    ["no YAML", "domain: {", "line 1"],
    ["a text", "hello", "must be a domain with descriptors"],
  ])("%s: the message has file and path, and nothing is written", async (name, text, reason) => {
    const path = file(`bad-${name.replaceAll(" ", "-")}.yaml`, text);
    const out = join(dir, "never.yaml");
    const { exitCode, complaint, text: said } = await importing(path, "--out", out);
    expect([exitCode, said, existsSync(out)]).toEqual([1, "", false]);
    expect(complaint).toContain(`nothing was imported\n  ${path}: ${reason}`);
  });

  it("is reported together with all others, also a missing one", async () => {
    const missing = join(dir, "nowhere.yaml");
    const { complaint } = await importing(
      missing,
      file("worse.yaml", "{domain: d, descriptors: [{}, {key: a, value: [1]}]}"),
    );
    expect(complaint?.split("\n")).toHaveLength(4);
    expect(complaint).toContain(`${missing}: cannot be read`);
    expect(complaint).toContain("descriptors[1].value: must be 1 to 1024 characters");
  });

  it("is also one whose values exceed our limits", async () => {
    const { complaint, exitCode } = await importing(
      file("long.yaml", `{domain: d, descriptors: [{key: ${"k".repeat(300)}}]}`),
    );
    expect([exitCode, complaint]).toEqual([
      1,
      expect.stringContaining("long.yaml: descriptors[0].key: must be 1 to 256"),
    ]);
  });
});

it.each([
  [["import"]],
  [["import", "kong", "x.yaml"]],
  [["import", "ratelimit"]],
  [["import", "ratelimit", "x", "--into", "y"]],
])("%j is a usage error", async (words) => {
  expect(await runCommandLine(words)).toMatchObject({ exitCode: 2, text: "" });
});
