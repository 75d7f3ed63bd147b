/** Writes imported rules as a part of our configuration file, with comments. */
import { Document, isNode, isScalar, visit, YAMLMap } from "yaml";
import type { ImportedDomain } from "./ratelimit-file.js";

export interface SourcedDomain extends ImportedDomain {
  /** The files it was read from. */
  files: string[];
}

const introduction = (
  files: string[],
) => ` Descriptor rules, written by \`tollgate import ratelimit\` from ${files.join(", ")}.
 A limit is a token bucket: it admits a burst of this size and refills evenly over the unit, while
 envoyproxy/ratelimit restarts its count with every second, minute or hour. See docs/RATE_LIMITS.md.`;

export function writtenRules(domains: readonly SourcedDomain[], notes: readonly string[]): string {
  const files = [...new Set(domains.flatMap((domain) => domain.files))];
  const rate_limits = domains.map(({ domain, descriptors }) => ({ domain, descriptors }));
  const document = new Document({ rate_limits: literal(rate_limits) });
  const remarks = notes.length === 0 ? "" : `\n\n Differences:\n${notes.map((note) => `  - ${note}`).join("\n")}`;
  document.commentBefore = `${introduction(files)}${remarks}`;
  domains.forEach((domain, i) => {
    const node = document.getIn(["rate_limits", i], true);
    if (isNode(node)) node.commentBefore = ` ${domain.files.join(", ")}`;
  });
  visit(document, {
    Pair(_, { key, value }) {
      const isLimit = isScalar(key) && key.value === "rate_limit";
      if (isLimit && value instanceof YAMLMap) value.flow = true;
    },
  });
  return document.toString({ lineWidth: 120 });
}

/** Escapes ${, which begins a variable in our files but not in theirs. */
function literal(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("${", () => "$${");
  if (Array.isArray(value)) return value.map(literal);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, literal(inner)]));
}
