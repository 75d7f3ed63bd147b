/** Generates src/limiter/library/option-schema.ts: the types, defaults and bounds of the library's options, from those of the configuration. */
import { execFileSync } from "node:child_process";
import { type OptionSchema, optionSchema } from "../../src/config/json-schema.js";
import { camelCase } from "../../src/config/options/camel-case.js";
import { fromRoot } from "../paths.js";

export const OPTION_SCHEMA = "src/limiter/library/option-schema.ts";

type Properties = Record<string, OptionSchema>;

const { properties: sections = {} } = optionSchema();
const app = sections.apps?.additionalProperties as OptionSchema;
const lease = sections.lease as OptionSchema;
const limit = withoutRoutes(sections.limits?.items as OptionSchema);

const pick = ({ properties = {} }: OptionSchema, ...names: string[]): Properties =>
  Object.fromEntries(names.map((name) => [name, properties[name] as OptionSchema]));

function without({ properties = {} }: OptionSchema, name: string): Properties {
  const { [name]: _, ...others } = properties;
  return others;
}

/** A library has no routes: they are no part of a key and have no profile. */
function withoutRoutes(option: OptionSchema): OptionSchema {
  const text = JSON.stringify(option).replaceAll(/\broute(, |\|)/g, "");
  return JSON.parse(text.replace("in the profile of its route or app", "in its own profile or its app's"));
}

/** A library states the value of a header, and has no routes. */
function libraryMatch(match: OptionSchema): OptionSchema {
  const { header, ...properties } = without(match, "route");
  const items = { ...(header?.items as OptionSchema), required: ["name", "value"] };
  return { ...match, properties: { ...properties, header: { ...header, items } } };
}

const MAX_VALUES =
  "Maximum number of values of `limits` and keys of `buckets` with their own bucket. Further ones share buckets, 256 per limit, by the network of the client.";
const PROFILE = "How requests are priced: the name of a profile, or a complete one.";
const NODE = "The name of this process in the store.";

/** The interfaces of the library and the options of each, as the configuration names them. */
const interfaces: Record<string, { about: string; required?: string[]; properties: Properties }> = {
  AppOptions: {
    about: "The limits of an app: a tenant, which pays for its requests in tokens.",
    required: ["guaranteed"],
    properties: { ...without(app, "unknown_length"), profile: { ...app.properties?.profile, description: PROFILE } },
  },
  LimitOptions: {
    about: "A limit of all requests that it matches, with a bucket for each value of its key.",
    required: ["name", "rate"],
    properties: { ...limit.properties, match: libraryMatch(limit.properties?.match as OptionSchema) },
  },
  BucketOptions: {
    about: "A limit from which `consume` takes tokens, with a bucket for each key.",
    required: ["rate"],
    properties: pick(limit, "rate", "burst", "dry_run", "priority", "on_store_failure"),
  },
  LeaseOptions: {
    about: "Tokens that this process holds in advance.",
    properties: without(lease, "timeout_ms"),
  },
  ClusterOptions: {
    about: "Limiters with the same store and cluster share the limits.",
    properties: pick(sections.cluster as OptionSchema, "id", "capacity", "rate", "shards"),
  },
  CommonOptions: {
    about: "Options of a limiter that have a plain value.",
    properties: {
      ...pick(lease, "timeout_ms"),
      fail_open_tokens: { ...sections.fail_open_tokens, description: "Default of `fail_open_tokens` of apps." },
      max_values: { ...sections.rate_limit_values, description: MAX_VALUES },
      node: { ...sections.node_id, description: NODE },
    },
  },
};

const camel = (name: string) => Object.keys(camelCase({ [name]: 0 }))[0] as string;
/** Names of options in backquotes. */
const inCamelCase = (text: string) => text.replace(/(?<=`)[a-z]+(_[a-z0-9]+)+/g, camel);

function comment({ description = "", default: value, otherwise, names }: OptionSchema, isRequired: boolean): string {
  const plain = typeof value === "object" ? undefined : JSON.stringify(value);
  const standard = isRequired ? undefined : names === undefined ? (otherwise ?? plain) : '"standard"';
  return `/** ${inCamelCase(description)}${standard === undefined ? "" : ` Default: ${inCamelCase(standard)}.`} */`;
}

function typeOf(option: OptionSchema): string {
  if (option.names !== undefined)
    return [...option.names.map((name) => JSON.stringify(name)), "CostProfile"].join(" | ");
  if (option.enum !== undefined) return option.enum.map((name) => JSON.stringify(name)).join(" | ");
  if (option.type === "array") return `(${typeOf(option.items as OptionSchema)})[]`;
  if (option.type === "object") return `{\n${members(option.properties ?? {}, option.required)}\n}`;
  return option.type === "integer" ? "number" : String(option.type);
}

function members(properties: Properties, required: readonly string[] = []): string {
  return Object.entries(properties)
    .map(([name, option]) => {
      const isRequired = required.includes(name);
      const type = isRequired ? `: ${typeOf(option)}` : `?: ${typeOf(option)} | undefined`;
      return `${comment(option, isRequired)}\n${camel(name)}${type};`;
    })
    .join("\n");
}

const KEYWORDS = ["type", "minimum", "maximum", "enum", "pattern", "maxItems"] as const;

/** What `option-checks.ts` compares a value with. */
function rule(option: OptionSchema): object {
  const { kind, names, items, properties, required } = option;
  if (names !== undefined) return { must: `be a profile or one of ${names.join(", ")}`, format: "profile" };
  const format = kind?.includes("10/s") ? { format: "rate" } : {};
  return {
    must: kind === undefined ? "be an object" : `be ${kind}`.replace(/^be must /, ""),
    ...Object.fromEntries(KEYWORDS.filter((name) => option[name] !== undefined).map((name) => [name, option[name]])),
    ...format,
    ...(items === undefined ? {} : { items: rule(items) }),
    ...(properties === undefined ? {} : rules(properties, required)),
  };
}

const rules = (properties: Properties, required: readonly string[] = []) => ({
  required,
  properties: Object.fromEntries(Object.entries(properties).map(([name, option]) => [camel(name), rule(option)])),
});

function defaults(properties: Properties, required: readonly string[] = []): object {
  const plain = Object.entries(properties).filter(
    ([name, { default: value }]) => !required.includes(name) && value !== undefined && typeof value !== "object",
  );
  return Object.fromEntries(plain.map(([name, { default: value }]) => [camel(name), value]));
}

export function optionSchemaModule(): string {
  const parts = Object.entries(interfaces).map(([name, { about, properties, required }]) => {
    const constant = name.charAt(0).toLowerCase() + name.slice(1).replace("Options", "");
    return `
/** ${about} */
export interface ${name} {
${members(properties, required)}
}
export const ${constant}Rules: ObjectRule = ${JSON.stringify(rules(properties, required))};
export const ${constant}Defaults = ${JSON.stringify(defaults(properties, required))} as const;
`;
  });
  const text = `/** The options of the library. Generated from the schema of the configuration by \`npx tsx build/reference-pages.ts\`; \`make check\` compares them. */
import type { CostProfile } from "../../core/cost.js";
import type { ObjectRule } from "./option-checks.js";
${parts.join("")}`;
  const biome = ["format", "--stdin-file-path", fromRoot(OPTION_SCHEMA)];
  return execFileSync(fromRoot("node_modules/.bin/biome"), biome, { input: text, encoding: "utf8" });
}
