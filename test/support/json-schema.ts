/** A small JSON Schema validator, independent of the code that writes the schemas. It rejects unknown keywords. */

type Json = Record<string, unknown>;

/** Keywords that do not constrain a value. */
const silent = new Set(["description", "default", "format", "title", "$schema"]);

/** All violations of the schema. `document` resolves $ref. */
export function schemaFaults(value: unknown, schema: Json, document: Json, place = "$"): string[] {
  const faults: string[] = [];
  const complain = (what: string) => faults.push(`${place}: ${what}, is ${JSON.stringify(value)?.slice(0, 80)}`);
  for (const [word, rule] of Object.entries(schema)) {
    switch (word) {
      case "$ref":
        faults.push(...schemaFaults(value, resolve(String(rule), document), document, place));
        break;
      case "type":
        if (![rule].flat().some((type) => hasType(value, String(type)))) complain(`must be ${String(rule)}`);
        break;
      case "const":
        if (value !== rule) complain(`must be ${String(rule)}`);
        break;
      case "enum":
        if (!(rule as unknown[]).includes(value)) complain(`must be one of ${String(rule)}`);
        break;
      case "anyOf":
      case "oneOf": {
        const tried = (rule as Json[]).map((one) => schemaFaults(value, one, document, place));
        if (tried.every((found) => found.length > 0)) complain(`fits none of ${tried.flat().join("; ")}`);
        break;
      }
      case "minimum":
        if (typeof value === "number" && value < Number(rule)) complain(`must be at least ${String(rule)}`);
        break;
      case "maximum":
        if (typeof value === "number" && value > Number(rule)) complain(`must be at most ${String(rule)}`);
        break;
      case "exclusiveMinimum":
        if (typeof value === "number" && value <= Number(rule)) complain(`must be above ${String(rule)}`);
        break;
      case "minLength":
        if (typeof value === "string" && value.length < Number(rule)) complain("must not be that short");
        break;
      case "maxLength":
        if (typeof value === "string" && value.length > Number(rule)) complain("must not be that long");
        break;
      case "maxItems":
        if (Array.isArray(value) && value.length > Number(rule)) complain("must not have that many items");
        break;
      case "pattern":
        if (typeof value === "string" && !new RegExp(String(rule)).test(value)) complain(`must match ${String(rule)}`);
        break;
      case "items":
        if (Array.isArray(value)) {
          faults.push(...value.flatMap((item, i) => schemaFaults(item, rule as Json, document, `${place}[${i}]`)));
        }
        break;
      case "required":
        for (const name of rule as string[]) if (!Object.hasOwn(Object(value), name)) complain(`must have ${name}`);
        break;
      case "properties":
        for (const [name, inner] of Object.entries(rule as Record<string, Json>)) {
          if (isObject(value) && Object.hasOwn(value, name)) {
            faults.push(...schemaFaults(value[name], inner, document, `${place}.${name}`));
          }
        }
        break;
      case "propertyNames":
        for (const name of Object.keys(Object(value))) {
          faults.push(...schemaFaults(name, rule as Json, document, `${place}.${name}`));
        }
        break;
      case "additionalProperties":
        for (const [name, inner] of Object.entries(isObject(value) ? value : {})) {
          if (Object.hasOwn((schema.properties ?? {}) as Json, name)) continue;
          if (rule === false) complain(`must not have ${name}`);
          else faults.push(...schemaFaults(inner, rule as Json, document, `${place}.${name}`));
        }
        break;
      default:
        if (!silent.has(word)) throw new Error(`this judge does not know ${word}`);
    }
  }
  return faults;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function hasType(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  return type === "object" ? isObject(value) : typeof value === type;
}

function resolve(reference: string, document: Json): Json {
  let found: unknown = document;
  for (const part of reference.replace(/^#\//, "").split("/")) found = (found as Json)[part];
  return found as Json;
}
