/** Names of buckets: equal on every node for equal values. Ids are digests, so that no value appears in the store. */
import { createHash } from "node:crypto";
import type { Entry } from "./descriptor.js";
import { LIMIT_PREFIX, type Rule, type Step } from "./rules.js";
import type { Unit } from "./unit.js";

/** Longer names are replaced by their digest, so that long values do not fill the memory. */
const MAX_NAME_LENGTH = 256;
/** 192 bits in base64url. */
const DIGEST_LENGTH = 32;

/** The length makes names unique: no two lists of fields result in the same name. */
const field = (kind: string, text: string) => `${kind}${text.length}:${text}`;

const digest = (name: string) => createHash("sha256").update(name).digest("base64url").slice(0, DIGEST_LENGTH);

const bounded = (name: string) => (name.length <= MAX_NAME_LENGTH ? name : field("d", digest(name)));

/** All values that match the rule use one bucket. */
export function hasSingleBucket({ steps }: Pick<Rule, "steps">): boolean {
  return steps.every(({ value, shared }) => value !== undefined && (shared || !value.includes("*")));
}

const sharesPattern = ({ value, shared }: Step) => shared && value !== undefined;

/** The bucket of entries that match the rule. */
export function bucketName({ domain, steps }: Rule, entries: readonly Entry[]): string {
  let name = field("n", domain);
  for (let i = 0; i < entries.length; i++) {
    const { key, value } = entries[i]!;
    const step = steps[i]!;
    name += field("k", key) + (sharesPattern(step) ? field("p", step.value ?? "") : field("v", value));
  }
  return bounded(name);
}

/** The bucket of a rule for all values that exceed the maximum number of buckets. */
export function overflowName({ domain, steps }: Rule): string {
  let name = field("n", domain);
  for (const { key, value } of steps) name += field("k", key) + (value === undefined ? "a" : field("p", value));
  return bounded(`${name}x`);
}

/** The bucket of entries whose limit is sent with the request. */
export function overrideName(domain: string, entries: readonly Entry[], unit: Unit): string {
  let name = field("n", domain);
  for (const { key, value } of entries) name += field("k", key) + field("v", value);
  return bounded(name + field("o", unit));
}

export function limitId(name: string): string {
  return LIMIT_PREFIX + digest(name);
}
