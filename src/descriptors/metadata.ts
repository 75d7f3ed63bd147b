/** What rules say besides their limits, put together for Envoy's dynamic metadata. */

export type Metadata = Readonly<Record<string, unknown>>;

/** The first who says something is heard; where both have sections, these are merged. Undefined where nobody says anything. */
export function mergedMetadata(all: readonly (Metadata | undefined)[]): Record<string, unknown> | undefined {
  let merged: Record<string, unknown> | undefined;
  for (const one of all) {
    if (one !== undefined) merged = merge(merged ?? {}, one);
  }
  return merged;
}

function merge(first: Metadata, second: Metadata): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...first };
  for (const [name, value] of Object.entries(second)) {
    const before = Object.hasOwn(merged, name) ? merged[name] : undefined;
    if (before === undefined) merged[name] = value;
    else if (isSection(before) && isSection(value)) merged[name] = merge(before, value);
  }
  return merged;
}

function isSection(value: unknown): value is Metadata {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
