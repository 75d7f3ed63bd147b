/** Merges the metadata of rules for Envoy's dynamic metadata. */

type Metadata = Readonly<Record<string, unknown>>;

/** The first value of a name is kept; objects are merged recursively. Undefined if there is no metadata. */
export function mergedMetadata(all: readonly (Metadata | undefined)[]): Record<string, unknown> | undefined {
  let merged: Record<string, unknown> | undefined;
  for (const metadata of all) if (metadata !== undefined) merged = merge(merged ?? {}, metadata);
  return merged;
}

function merge(first: Metadata, second: Metadata): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...first };
  for (const [name, value] of Object.entries(second)) {
    const before = Object.hasOwn(merged, name) ? merged[name] : undefined;
    if (before === undefined) merged[name] = value;
    else if (isObject(before) && isObject(value)) merged[name] = merge(before, value);
  }
  return merged;
}

function isObject(value: unknown): value is Metadata {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
