/** The schema as JSON Schema (draft 2020-12), for editors. It accepts every file that is right; the loader knows more. */
import * as z from "zod";
import { schema } from "./schema.js";
import { type KindNote, kindNotes } from "./values.js";

/** What a JSON Schema has here, and the notes on the kinds of values. */
export interface OptionSchema extends KindNote {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: string[];
  properties?: Record<string, OptionSchema>;
  required?: string[];
  items?: OptionSchema;
  additionalProperties?: OptionSchema | boolean;
  propertyNames?: OptionSchema;
  [keyword: string]: unknown;
}

const noteNames: readonly string[] = ["kind", "names", "otherwise", "likeSection"] satisfies (keyof KindNote)[];
const VARIABLE = { $ref: "#/$defs/variable" };

/** The options with their notes, as the documents are made from. Defaults that depend on the machine are left out. */
export function optionSchema(): OptionSchema {
  return z.toJSONSchema(schema, {
    io: "input",
    target: "draft-2020-12",
    override({ zodSchema, jsonSchema }) {
      const note = kindNotes.get(zodSchema as z.core.$ZodType) ?? {};
      Object.assign(jsonSchema, note);
      // For what is read before it is checked (a number from a text) zod leaves the default out.
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
        description: `An environment variable: \${NAME}, or \${NAME:-otherwise}.`,
      },
    },
  };
}

/** Wherever a value is wanted, a variable may stand for it; and a section that says nothing may be empty. */
function forEditors(option: OptionSchema): OptionSchema {
  const plain = withoutNotes(option);
  const { properties, items, additionalProperties, propertyNames } = option;
  if (propertyNames !== undefined) plain.propertyNames = withoutNotes(propertyNames);
  if (properties !== undefined) {
    const named = Object.entries(properties).map(([name, inner]) => [name, forEditors(inner)] as const);
    plain.properties = Object.fromEntries(named);
  }
  if (items !== undefined) plain.items = forEditors(items);
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
  // A text without a pattern takes a variable as it is.
  if (option.type === "string" && option.enum === undefined && option.pattern === undefined) return plain;
  return { ...annotations, anyOf: [kind, VARIABLE] };
}

function withoutNotes(option: OptionSchema): OptionSchema {
  return Object.fromEntries(Object.entries(option).filter(([keyword]) => !noteNames.includes(keyword)));
}
