/** JSON Web Key Sets: the public keys of tokens. */

export interface KeySet {
  keys: Record<string, unknown>[];
}

/** Throws if the text is not a key set with at least one key. */
export function parseKeySet(text: string): KeySet {
  const value: unknown = JSON.parse(text);
  const keys = typeof value === "object" && value !== null ? (value as Partial<KeySet>).keys : undefined;
  if (!Array.isArray(keys) || keys.length === 0) throw new Error("has no keys");
  if (keys.some((key) => typeof key !== "object" || key === null)) throw new Error("has an entry that is not a key");
  return { keys };
}
