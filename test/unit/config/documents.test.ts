/** The reference page and the JSON Schema match the options of the schema. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { configurationPage } from "../../../build/configuration-page.js";
import { command as schemaCommand } from "../../../src/cli/schema.js";
import { type OptionSchema, optionSchema } from "../../../src/config/json-schema.js";
import { readConfig } from "../../../src/config/load.js";
import { needRestart, notInStore, optionAt, ownToNode } from "../../../src/config/reach.js";
import { overrides, storeVariables } from "../../../src/config/variables.js";
import { schemaFaults } from "../../support/json-schema.js";
import { badFile } from "./bad-files.js";
import { good } from "./live-node.js";

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");

/** Every option with its place, however deep. */
function* everyOption(option: OptionSchema, place = ""): Generator<[place: string, OptionSchema]> {
  for (const [name, inner] of Object.entries(option.properties ?? {})) {
    const here = place === "" ? name : `${place}.${name}`;
    yield [here, inner];
    yield* everyOption(inner, here);
    if (inner.items !== undefined) yield* everyOption(inner.items, `${here}[]`);
    if (typeof inner.additionalProperties === "object")
      yield* everyOption(inner.additionalProperties, `${here}.<name>`);
  }
}

const options = new Map(everyOption(optionSchema()));

describe("docs/CONFIGURATION.md", () => {
  it("is up to date: npx tsx build/configuration-page.ts", () => {
    expect(read("docs/CONFIGURATION.md")).toBe(configurationPage());
  });

  it("describes kinds in whole phrases", () => {
    const kinds = [...read("docs/CONFIGURATION.md").matchAll(/^\| `[^|]+` \| ([^|]*) \|/gm)].map(([, kind]) => kind!);
    expect(kinds.length).toBeGreaterThan(100);
    const broken = kinds.filter((kind) => /[:,] *$|\bmust\b|\ba \d|\d of A–Z|\w+ or \w+ or \w+$/.test(kind));
    expect(broken).toEqual([]);
    expect(kinds).toContain("names, each with 1 to 128 characters of A–Z a–z 0–9 . _ : -");
    expect(kinds).toContain("statsd://host:port or graphite://host:port, or a list of at most 4");
    expect(kinds).toContain("list of at most 1000, each an address or a network, for example 10.0.0.0/8 or ::1/128");
  });

  it("names the options that the store layer cannot set", () => {
    const sentence = /The store layer cannot set\n(.*?),\nbecause/s.exec(read("docs/CONFIGURATION.md"))?.[1] ?? "";
    expect([...sentence.matchAll(/`(.*?)`/g)].map(([, option]) => option)).toEqual(notInStore);
  });

  it("has only links to existing headings", () => {
    const page = configurationPage();
    const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
      (title ?? "").toLowerCase().replace(/[^a-z0-9_-]/g, ""),
    );
    const links = [...page.matchAll(/\]\(#(.*?)\)/g)].map(([, anchor]) => anchor);
    expect(links.length).toBeGreaterThan(10);
    for (const link of links) expect(headings).toContain(link);
  });

  it("has every option with a description and every variable", () => {
    const page = configurationPage();
    expect(options.size).toBeGreaterThan(100);
    for (const [place, { description }] of options) {
      expect(description, place).toMatch(/^[A-Z].*\.$/);
      expect(page, place).toContain(description?.replaceAll("|", "\\|"));
    }
    for (const variable of [...storeVariables, ...Object.keys(overrides)]) expect(page).toContain(`\`${variable}\``);
  });
});

describe("an option", () => {
  it.each([...options].filter(([, option]) => option.properties === undefined))(
    "%s has a kind in words",
    (_, option) => {
      const { kind, items, additionalProperties } = option;
      expect(kind ?? items?.properties ?? additionalProperties).toBeDefined();
    },
  );

  it.each([...needRestart, ...notInStore, ...ownToNode])("%s exists in the schema", (option) => {
    expect(options.has(option)).toBe(true);
    const tls = "tls: { cert: /cert.pem, key: /key.pem }";
    const yaml = `envoy: { listen: 127.0.0.1:9, ${tls} }\ncontrol: { ${tls} }\n${tls}\nstore: rediss://a\nstore_tls: { name: a }\ncluster: { shards: 2 }`;
    expect(optionAt(good(yaml), option)).toBeDefined();
  });

  it.each(Object.values(overrides).map((path) => path.join(".")))("%s, which a variable sets, exists", (option) => {
    expect(options.has(option)).toBe(true);
  });
});

describe("tollgate schema", () => {
  const document = JSON.parse(schemaCommand.run([]) as string) as Record<string, unknown>;
  // How long lists may be is not what this is about, and the judge does not count.
  const judged = JSON.parse(JSON.stringify(document), (name, value) =>
    ["minItems", "maxItems", "$defs"].includes(name) ? undefined : value,
  ) as Record<string, unknown>;
  const faults = (yaml: string) => schemaFaults(parse(yaml), judged, document);

  it("names its draft, and has no additional keywords", () => {
    expect(document).toMatchObject({ $schema: "https://json-schema.org/draft/2020-12/schema", type: "object" });
    expect(JSON.stringify(document)).not.toMatch(/"(kind|otherwise|names)":/);
  });

  it("has description, bounds, choices and defaults, for every form of a value", () => {
    const { lease, apps, unknown_apps, metrics } = document.properties as Record<string, OptionSchema>;
    expect(lease?.properties?.reserve).toEqual({
      ...{ description: expect.any(String), default: 1000 },
      anyOf: [{ type: "integer", minimum: 1, maximum: 1_000_000 }, { $ref: "#/$defs/variable" }],
    });
    expect(unknown_apps).toMatchObject({ default: "default", anyOf: [{ enum: ["default", "reject"] }, {}] });
    expect(metrics?.properties?.enabled).toMatchObject({ default: true, anyOf: [{ type: "boolean" }, {}] });
    expect(apps?.additionalProperties).toMatchObject({ type: ["object", "null"], additionalProperties: false });
  });

  it("has the actual defaults", () => {
    const config = good("") as unknown as Record<string, unknown>;
    for (const [place, option] of options) {
      if (option.default === undefined || /[<[]/.test(place)) continue;
      // A section that is missing has no options.
      if (/(^|\.)((store_)?tls|jwt)\./.test(place)) continue;
      expect(option.default, place).toEqual(optionAt(config, place));
    }
  });

  it("does not depend on the machine", () => {
    const { node_id, workers } = document.properties as Record<string, OptionSchema>;
    expect([node_id?.default, workers?.default]).toEqual([undefined, undefined]);
  });

  it.each([
    read("examples/gateway.yaml"),
    "lease:\napps:\n  a:\n",
    `workers: \${N}\nlog: { level: '\${LEVEL:-info}' }\nmetrics: { enabled: '\${M}' }`,
    "apps: { a: { profile: iops }, b: { profile: { base: { GET: 2 } } } }",
    "upstreams: { a: { dns: { name: a.example, port: 80 } } }\nroutes: [{ path: /, upstream: a, connections: {} }]",
  ])("accepts what the loader accepts: %.40s", (yaml) => {
    const env = { N: "1", M: "true" };
    expect(readConfig(yaml, env).problems).toEqual([]);
    expect(faults(yaml)).toEqual([]);
  });

  const seen = [
    ...["choice", "fraction", "listen", "negative", "not-a-number", "not-a-section", "priority", "profile-name"],
    ...["too-large", "unknown-option", "unknown-option-in-section", "token-misspelt", "zero", "app-name", "metrics"],
  ];
  it.each(seen)("finds the problem in bad/%s.yaml", (name) => {
    expect(faults(readFileSync(badFile(name), "utf8"))).not.toEqual([]);
  });
});
