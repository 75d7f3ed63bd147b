/** Values of limits as operators write them: the bucket of a value, and the value of a bucket. */
import { MAX_TOKENS } from "../../core/bucket.js";
import { VALUE_PREFIX } from "../../core/keys.js";
import { escapeBytes } from "../../core/platform.js";
import { INVALID, isAddressPart, normalValue, writtenValue } from "../../limit-rules/key-parts.js";
import { bucketId, type LimitRule } from "../../limit-rules/limit-rules.js";
import { sha1 } from "./limit-checks.js";
import { bytesOf, keyPartText } from "./limit-options.js";

/** Separates the parts of a value whose key has several. */
const SEPARATOR = ",";

/** The bucket of a value; a text that states what is wrong if it does not fit the key. */
export function bucketOfValue(rule: LimitRule, value: string): { id: string } | string {
  const parts = rule.key.length === 1 ? [value] : value === "" ? [] : value.split(SEPARATOR);
  if (parts.length !== rule.key.length) {
    return rule.key.length === 0
      ? "must be empty: the limit has one bucket"
      : `must be ${rule.key.map(keyPartText).join(SEPARATOR)}`;
  }
  const values: string[] = [];
  for (const [i, part] of rule.key.entries()) {
    const normal = normalValue(part, rule, writtenValue(part, rule.ignoresPathCase, bytesOf(parts[i]!)));
    if (normal === INVALID) {
      return `must be ${isAddressPart(part) ? "an address" : `a value of ${keyPartText(part)}`}, not ${JSON.stringify(parts[i])}`;
    }
    values.push(escapeBytes(normal));
  }
  return { id: bucketId(rule.name, values.join(":"), sha1) };
}

/** The value of a bucket as text. Digests cannot be reversed. */
export function valueOfBucket(id: string, limit: string): string {
  const escaped = id.slice(VALUE_PREFIX.length + limit.length + 1);
  if (escaped.startsWith("_o")) return `(further values${escaped === "_o" ? "" : ` ${escaped.slice(2)}`})`;
  if (escaped.startsWith("_x")) return `(long value ${escaped.slice(2, 14)}…)`;
  return escaped
    .split(":")
    .map((part) => {
      const bytes = part.replace(/_([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
      return Buffer.from(bytes, "latin1").toString("utf8");
    })
    .join(SEPARATOR);
}

export const bucketPrefix = (limit: string) => `${VALUE_PREFIX}${limit}:`;

/** Enough to fill any bucket. */
export const FILL_UP = MAX_TOKENS;
