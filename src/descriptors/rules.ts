/** Descriptor rules as operators state them, and compiled: which of them a descriptor meets, in one look per entry. */
import type { OnStoreFailure } from "../core/limits.js";
import type { Unit } from "./unit.js";

export interface DomainRules {
  domain: string;
  descriptors: readonly DescriptorRule[];
}

export interface DescriptorRule {
  key: string;
  /** With `*` for any characters, as often as wanted. Without it, any value matches. */
  value?: string;
  limit?: LimitRule;
  /** All values that match the pattern share one bucket; else each has its own. */
  shared: boolean;
  descriptors: readonly DescriptorRule[];
}

export interface LimitRule {
  perUnit: number;
  unit: Unit;
  unlimited: boolean;
  /** Empty: it has none, and cannot be replaced. */
  name: string;
  /** Names of limits that do not count where this one does. */
  replaces: readonly string[];
  /** Counts, and never refuses. */
  shadow: boolean;
  /** Refuses only where every other of its kind in the request does, too. */
  quota: boolean;
  priority: number;
  onStoreFailure: OnStoreFailure;
  /** For Envoy's dynamic metadata, where the limit is kept. */
  metadata?: Readonly<Record<string, unknown>>;
}

export interface Step {
  key: string;
  value: string | undefined;
  shared: boolean;
}

/** A limit as it is counted: by a name that comes from the configuration alone, never from a request. */
export interface CountedLimit extends LimitRule {
  label: string;
}

/** A rule with a limit, and how descriptors get there. */
export interface Rule extends CountedLimit {
  domain: string;
  steps: readonly Step[];
}

interface Node {
  rule: Rule | undefined;
  keys: Map<string, Choices>;
}

/** What may come for one key: a certain value, else the first pattern that fits, else anything. */
interface Choices {
  exact: Map<string, Node>;
  patterns: { parts: string[]; node: Node }[];
  any: Node | undefined;
}

export interface CompiledRules {
  domains: number;
  /** All that have a limit, in the order of the configuration. */
  rules: readonly Rule[];
  hasDomain(domain: string): boolean;
  /** The rule that all entries together lead to; undefined where they lead nowhere, or not far enough. */
  match(domain: string, entries: readonly { key: string; value: string }[]): Rule | undefined;
}

export function compileRules(domains: readonly DomainRules[]): CompiledRules {
  const roots = new Map<string, Node>();
  const rules: Rule[] = [];

  function add(node: Node, domain: string, before: readonly Step[], descriptors: readonly DescriptorRule[]): void {
    for (const { key, value, shared, limit, descriptors: nested } of descriptors) {
      const steps = [...before, { key, value, shared }];
      const next = childOf(node, key, value);
      if (limit !== undefined) {
        next.rule = { ...limit, domain, steps, label: limitLabel(domain, pathOf(steps)) };
        rules.push(next.rule);
      }
      add(next, domain, steps, nested);
    }
  }

  for (const { domain, descriptors } of domains) {
    const root = roots.get(domain) ?? newNode();
    roots.set(domain, root);
    add(root, domain, [], descriptors);
  }
  return {
    domains: roots.size,
    rules,
    hasDomain: (domain) => roots.has(domain),
    match(domain, entries) {
      let node = roots.get(domain);
      for (const { key, value } of entries) {
        if (node === undefined) return undefined;
        const choices = node.keys.get(key);
        if (choices === undefined) return undefined;
        node = choose(choices, value);
      }
      return entries.length === 0 ? undefined : node?.rule;
    },
  };
}

const newNode = (): Node => ({ rule: undefined, keys: new Map() });

function childOf(node: Node, key: string, value: string | undefined): Node {
  let choices = node.keys.get(key);
  if (choices === undefined) {
    choices = { exact: new Map(), patterns: [], any: undefined };
    node.keys.set(key, choices);
  }
  const child = newNode();
  if (value === undefined) {
    choices.any = child;
    return child;
  }
  // A pattern is a value, too: it may be sent letter by letter.
  choices.exact.set(value, child);
  if (value.includes("*")) choices.patterns.push({ parts: value.split("*"), node: child });
  return child;
}

function choose({ exact, patterns, any }: Choices, value: string): Node | undefined {
  const certain = exact.get(value);
  if (certain !== undefined) return certain;
  for (const { parts, node } of patterns) if (fits(parts, value)) return node;
  return any;
}

/** Whether a value is the parts in their order with anything between them. */
export function fits(parts: readonly string[], value: string): boolean {
  const first = parts[0]!;
  const last = parts[parts.length - 1]!;
  if (!value.startsWith(first) || !value.endsWith(last)) return false;
  const end = value.length - last.length;
  let at = first.length;
  if (at > end) return false;
  for (let i = 1; i < parts.length - 1; i++) {
    const part = parts[i]!;
    const found = value.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** No app of the configuration has an id that begins like this. */
export const LIMIT_PREFIX = "rate-limit:";

const LONGEST_LABEL = 200;

/** For logs and metrics, without spaces. */
export function limitLabel(domain: string, path: string): string {
  const label = `${LIMIT_PREFIX}${domain}/${path}`.replace(/[^!-~]/g, "_");
  return label.length <= LONGEST_LABEL ? label : `${label.slice(0, LONGEST_LABEL)}…`;
}

/** As `key=value/key`. */
function pathOf(steps: readonly Step[]): string {
  return steps.map(({ key, value }) => (value === undefined ? key : `${key}=${value}`)).join("/");
}
