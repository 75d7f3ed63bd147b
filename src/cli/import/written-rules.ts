/** Imported rules as a part of our configuration file, with comments for who reads it next. */
import { Document, isNode, YAMLMap } from "yaml";
import type { ImportedDescriptor, ImportedDomain } from "./ratelimit-file.js";

export interface SourcedDomain extends ImportedDomain {
  /** Where it comes from. */
  files: string[];
}

const introduction = (
  files: string[],
) => ` Descriptor rules, made by \`tollgate import ratelimit\` from ${files.join(", ")}.
 A limit is a bucket: so many requests may come at once, and they are replaced evenly over the unit, where
 envoyproxy/ratelimit counts from zero when a new second, minute or hour begins. See docs/RATE_LIMITS.md.`;

export function writtenRules(domains: readonly SourcedDomain[], notes: readonly string[]): string {
  const files = [...new Set(domains.flatMap((domain) => domain.files))];
  const rate_limits = domains.map(({ domain, descriptors }) => ({ domain, descriptors }));
  const document = new Document({ rate_limits: literal(rate_limits) });
  const remarks = notes.length === 0 ? "" : `\n\n Not the same here:\n${notes.map((note) => `  - ${note}`).join("\n")}`;
  document.commentBefore = `${introduction(files)}${remarks}`;
  domains.forEach((domain, i) => {
    const node = document.getIn(["rate_limits", i], true);
    if (isNode(node)) node.commentBefore = ` ${domain.files.join(", ")}`;
    limitsOnOneLine(document, domain.descriptors, ["rate_limits", i, "descriptors"]);
  });
  return document.toString({ lineWidth: 120 });
}

function limitsOnOneLine(
  document: Document,
  descriptors: readonly ImportedDescriptor[],
  path: (string | number)[],
): void {
  descriptors.forEach((descriptor, i) => {
    const limit = document.getIn([...path, i, "rate_limit"], true);
    if (limit instanceof YAMLMap) limit.flow = true;
    limitsOnOneLine(document, descriptor.descriptors ?? [], [...path, i, "descriptors"]);
  });
}

/** Of what begins a variable in our files, there is none in theirs. */
function literal(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("${", () => "$${");
  if (Array.isArray(value)) return value.map(literal);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, literal(inner)]));
}
