/** Descriptor rules of the configuration, compiled to a tree that matches a descriptor with one lookup per entry. */

import type { OnStoreFailure } from "../../core/app-limits.js";
import { DESCRIPTOR_PREFIX } from "../../core/keys.js";
import type { Entry, Unit } from "./descriptor.js";

export interface DomainRules {
  domain: string;
  descriptors: readonly DescriptorRule[];
}

export interface DescriptorRule {
  key: string;
  /** `*` stands for any characters and may occur several times. Unset: any value matches. */
  value?: string;
  limit?: LimitRule;
  /** All values that match the pattern share one bucket; otherwise each value has its own. */
  shared: boolean;
  descriptors: readonly DescriptorRule[];
}

export interface LimitRule {
  perUnit: number;
  unit: Unit;
  unlimited: boolean;
  /** Empty: no name, so it cannot be replaced. */
  name: string;
  /** Names of limits that do not apply to a request that this limit applies to. */
  replaces: readonly string[];
  /** Counts, but never refuses. */
  shadow: boolean;
  /** Refuses only if all quotas of the request refuse. */
  quota: boolean;
  priority: number;
  onStoreFailure: OnStoreFailure;
  /** For Envoy's dynamic metadata, if the limit allows the request. */
  metadata?: Readonly<Record<string, unknown>>;
}

export interface Step {
  key: string;
  value: string | undefined;
  shared: boolean;
}

/** A limit with its label for logs and metrics, which never contains a value of a request. */
export interface CountedLimit extends LimitRule {
  label: string;
}

/** A rule with a limit, and the path of entries that leads to it. */
export interface Rule extends CountedLimit {
  domain: string;
  steps: readonly Step[];
}

interface Node {
  rule: Rule | undefined;
  keys: Map<string, Children>;
}

/** Children for one key, in the order of precedence: equal value, first matching pattern, any value. */
interface Children {
  exact: Map<string, Node>;
  patterns: { parts: string[]; node: Node }[];
  any: Node | undefined;
}

export type CompiledRules = ReturnType<typeof compileRules>;

export function compileRules(domains: readonly DomainRules[]) {
  const roots = new Map<string, Node>();
  const rules: Rule[] = [];

  function add(node: Node, domain: string, before: readonly Step[], descriptors: readonly DescriptorRule[]): void {
    for (const { key, value, shared, limit, descriptors: nested } of descriptors) {
      const steps = [...before, { key, value, shared }];
      const next = addChild(node, key, value);
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
    /** Rules that have a limit, in the order of the configuration. */
    rules: rules as readonly Rule[],
    hasDomain: (domain: string) => roots.has(domain),
    /** The rule at the end of the path of all entries. Matching does not backtrack. */
    match(domain: string, entries: readonly Entry[]): Rule | undefined {
      let node = roots.get(domain);
      for (const { key, value } of entries) {
        const children = node?.keys.get(key);
        if (children === undefined) return undefined;
        node = childFor(children, value);
      }
      return entries.length === 0 ? undefined : node?.rule;
    },
  };
}

const newNode = (): Node => ({ rule: undefined, keys: new Map() });

function addChild(node: Node, key: string, value: string | undefined): Node {
  let children = node.keys.get(key);
  if (children === undefined) {
    children = { exact: new Map(), patterns: [], any: undefined };
    node.keys.set(key, children);
  }
  const child = newNode();
  if (value === undefined) {
    children.any = child;
    return child;
  }
  // A value that is equal to the text of the pattern matches it first.
  children.exact.set(value, child);
  if (value.includes("*")) children.patterns.push({ parts: value.split("*"), node: child });
  return child;
}

function childFor({ exact, patterns, any }: Children, value: string): Node | undefined {
  const equal = exact.get(value);
  if (equal !== undefined) return equal;
  for (const { parts, node } of patterns) if (matchesPattern(parts, value)) return node;
  return any;
}

/** Whether the value consists of the parts in this order, with any characters between them. */
export function matchesPattern(parts: readonly string[], value: string): boolean {
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

const MAX_LABEL_LENGTH = 200;

/** Printable and without spaces. */
export function limitLabel(domain: string, path: string): string {
  const label = `${DESCRIPTOR_PREFIX}${domain}/${path}`.replace(/[^!-~]/g, "_");
  return label.length <= MAX_LABEL_LENGTH ? label : `${label.slice(0, MAX_LABEL_LENGTH)}…`;
}

/** `key=value/key` */
function pathOf(steps: readonly Step[]): string {
  return steps.map(({ key, value }) => (value === undefined ? key : `${key}=${value}`)).join("/");
}
