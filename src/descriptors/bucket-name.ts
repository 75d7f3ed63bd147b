/** The names of buckets: the same on every node for the same values, and nothing of a value can be read from an id. */
import { createHash } from "node:crypto";
import type { Entry } from "./rule-book.js";
import { LIMIT_PREFIX, type Rule, type Step } from "./rules.js";
import type { Unit } from "./unit.js";

/** Longer names are kept as digests, so that long values cannot fill the memory. */
const LONGEST_NAME = 256;
/** Of a digest in base64url: 192 bits. */
const DIGEST_LENGTH = 32;

/** Each text with its length before it: no two lists of texts give the same name. */
const word = (kind: string, text: string) => `${kind}${text.length}:${text}`;

const digest = (name: string) => createHash("sha256").update(name).digest("base64url").slice(0, DIGEST_LENGTH);

const bounded = (name: string) => (name.length <= LONGEST_NAME ? name : word("d", digest(name)));

/** Whether all values that meet the rule share one bucket. */
export function isClosed({ steps }: Pick<Rule, "steps">): boolean {
  return steps.every(({ value, shared }) => value !== undefined && (shared || !value.includes("*")));
}

const isPattern = ({ value, shared }: Step) => shared && value !== undefined;

/** The bucket of a closed rule. */
export function closedName({ domain, steps }: Rule): string {
  let name = word("n", domain);
  for (const step of steps) {
    name += word("k", step.key) + word(isPattern(step) ? "p" : "v", step.value ?? "");
  }
  return bounded(name);
}

/** The bucket of these entries, which must meet the rule. */
export function openName({ domain, steps }: Rule, entries: readonly Entry[]): string {
  let name = word("n", domain);
  for (let i = 0; i < entries.length; i++) {
    const { key, value } = entries[i]!;
    const step = steps[i]!;
    name += word("k", key) + (isPattern(step) ? word("p", step.value ?? "") : word("v", value));
  }
  return bounded(name);
}

/** The bucket that values of an open rule share while there is no room for more. */
export function overflowName({ domain, steps }: Rule): string {
  let name = word("n", domain);
  for (const { key, value } of steps) name += word("k", key) + (value === undefined ? "a" : word("p", value));
  return bounded(`${name}x`);
}

/** The bucket of entries whose limit comes with the request. */
export function overrideName(domain: string, entries: readonly Entry[], unit: Unit): string {
  let name = word("n", domain);
  for (const { key, value } of entries) name += word("k", key) + word("v", value);
  return bounded(name + word("o", unit));
}

export function limitId(name: string): string {
  return LIMIT_PREFIX + digest(name);
}
