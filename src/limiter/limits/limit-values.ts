/** Values of limits as operators write them: the bucket of a value, and the value of a bucket. */
import { networkText } from "../../core/address.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import { hostName } from "../../core/host.js";
import { VALUE_PREFIX } from "../../core/keys.js";
import { pathValue } from "../../core/path.js";
import { escapeBytes, lowerText } from "../../core/platform.js";
import { bucketId, type LimitRule } from "../../limit-rules/limit-rules.js";
import { sha1 } from "./limit-checks.js";
import { bytesOf } from "./limit-options.js";

/** Separates the parts of a value whose key has several. */
const SEPARATOR = ",";

/** The bucket of a value; a text that states what is wrong if it does not fit the key. */
export function bucketOfValue(rule: LimitRule, value: string): { id: string } | string {
  const parts = rule.key.length === 1 ? [value] : value === "" ? [] : value.split(SEPARATOR);
  if (parts.length !== rule.key.length) {
    const names = rule.key.map(({ kind, header }) => (kind === "header" ? `header:${header}` : kind)).join(SEPARATOR);
    return rule.key.length === 0 ? "must be empty: the limit has one bucket" : `must be ${names}`;
  }
  const values: string[] = [];
  for (const [i, { kind }] of rule.key.entries()) {
    const normal = normalValue(kind, parts[i]!, rule);
    if (normal === "" && kind === "ip") return `must be an address, not ${JSON.stringify(parts[i])}`;
    values.push(escapeBytes(normal));
  }
  return { id: bucketId(rule.name, values.join(":"), sha1) };
}

/** As bytes. */
function normalValue(kind: string, value: string, { bitsOf4, bitsOf6, ignoresPathCase }: LimitRule): string {
  if (kind === "ip") return networkText(value, bitsOf4, bitsOf6);
  if (kind === "host") return hostName(value);
  if (kind !== "path") return bytesOf(value);
  const path = pathValue(bytesOf(value));
  return ignoresPathCase ? lowerText(path) : path;
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
