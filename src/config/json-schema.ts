/** The schema as JSON Schema (draft 2020-12) for editors. It accepts every valid file; the loader is stricter. */
import * as z from "zod";
import { schema } from "./schema.js";
import type { KindNote } from "./values.js";

/** A JSON Schema with the notes of `values.ts`. */
export interface OptionSchema extends KindNote {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: string[];
  properties?: Record<string, OptionSchema>;
  required?: string[];
  items?: OptionSchema;
  anyOf?: OptionSchema[];
  additionalProperties?: OptionSchema | boolean;
  propertyNames?: OptionSchema;
  [keyword: string]: unknown;
}

const noteNames: readonly string[] = ["kind", "names", "otherwise", "likeSection"] satisfies (keyof KindNote)[];
const VARIABLE = { $ref: "#/$defs/variable" };

/** The options with their notes, for the reference page. Defaults that depend on the machine are omitted. */
export function optionSchema(): OptionSchema {
  return z.toJSONSchema(schema, {
    io: "input",
    target: "draft-2020-12",
    override({ zodSchema, jsonSchema }) {
      // zod omits the default of preprocessed values.
      const { def } = zodSchema._zod;
      if (def.type === "default") jsonSchema.default = (def as z.core.$ZodDefaultDef).defaultValue;
      if (jsonSchema.otherwise !== undefined || def.type === "prefault") delete jsonSchema.default;
    },
  }) as OptionSchema;
}

export function jsonSchema(): OptionSchema {
  const { $schema, ...options } = forEditors(optionSchema());
  return {
    $schema,
    title: "Tollgate configuration",
    ...options,
    type: "object",
    $defs: {
      variable: {
        type: "string",
        pattern: "\\$\\{",
        description: `An environment variable: \${NAME} or \${NAME:-default}.`,
      },
    },
  };
}

/** Values may be replaced by a variable, and sections may be empty. */
function forEditors(option: OptionSchema): OptionSchema {
  const plain = withoutNotes(option);
  const { properties, items, additionalProperties, propertyNames } = option;
  if (propertyNames !== undefined) plain.propertyNames = withoutNotes(propertyNames);
  if (properties !== undefined) {
    const named = Object.entries(properties).map(([name, inner]) => [name, forEditors(inner)] as const);
    plain.properties = Object.fromEntries(named);
  }
  if (items !== undefined) plain.items = forEditors(items);
  if (option.anyOf !== undefined) return { ...plain, anyOf: option.anyOf.map(forEditors) };
  if (typeof additionalProperties === "object") plain.additionalProperties = forEditors(additionalProperties);
  if (option.type === "array") return plain;
  const { description, default: otherwise, ...kind } = plain;
  const annotations = {
    ...(description === undefined ? {} : { description }),
    ...(otherwise === undefined ? {} : { default: otherwise }),
  };
  if (option.type === "object") {
    const empty = { ...kind, type: ["object", "null"] };
    return option.names === undefined
      ? { ...annotations, ...empty }
      : { ...annotations, anyOf: [{ type: "string", enum: [...option.names] }, empty, VARIABLE] };
  }
  // A string without a pattern accepts a variable anyway.
  if (option.type === "string" && option.enum === undefined && option.pattern === undefined) return plain;
  return { ...annotations, anyOf: [kind, VARIABLE] };
}

function withoutNotes(option: OptionSchema): OptionSchema {
  return Object.fromEntries(Object.entries(option).filter(([keyword]) => !noteNames.includes(keyword)));
}
