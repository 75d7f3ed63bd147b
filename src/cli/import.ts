/** `tollgate import`: converts rules of envoyproxy/ratelimit to our configuration. */
import { resolve } from "node:path";
import { Document, isNode, isScalar, visit, YAMLMap } from "yaml";
import { parseYaml, readConfig, readText } from "../config/load.js";
import { describeProblem } from "../config/problem.js";
import { type Command, EXIT_OK, flagOption, readArguments, readChoice, textOption, UsageError } from "./command.js";
import { type ImportedDomain, placeIn, readRatelimitFile, repeatedDescriptors } from "./import/ratelimit-file.js";
import { replaceFile } from "./render/files.js";

const help = `Usage: tollgate import ratelimit FILE… [--out FILE] [--merge-domains]

Reads configuration files of envoyproxy/ratelimit and writes the same rules as \`rate_limits\`: nested descriptors, values
with *, unlimited, shadow_mode, quota_mode, replaces, share_threshold, metadata. Differences in behaviour are listed on
stderr and in comments. If a file is invalid for envoyproxy/ratelimit, lists all problems and writes nothing.

  --out FILE         output file; replaced if it exists (default: stdout)
  --merge-domains    merge the descriptors of files with the same domain

Exit code 0 on success, 1 if a file is invalid, 2 for a usage error.

Example:
  tollgate import ratelimit ratelimit/config/*.yaml --out rate-limits.yaml
`;

export const command: Command = {
  help,
  run(args) {
    const { values, words } = readArguments(args, { out: textOption, "merge-domains": flagOption });
    const [from, ...files] = words;
    readChoice("import", from ?? "", ["ratelimit"]);
    if (files.length === 0) throw new UsageError("FILE is missing");
    const { domains, notes } = readFiles(files, values["merge-domains"]);
    const text = writtenRules(domains, notes);
    checkResult(text);
    const complaint = notes.length === 0 ? undefined : `differences:\n${notes.map((note) => `  ${note}`).join("\n")}`;
    if (values.out === undefined) return { text, exitCode: EXIT_OK, complaint };
    replaceFile(resolve(values.out), text);
    return { text: `${values.out}\n`, exitCode: EXIT_OK, complaint };
  },
};

interface SourcedDomain extends ImportedDomain {
  /** The files it was read from. */
  files: string[];
}

function readFiles(files: string[], mayMerge: boolean) {
  const problems: string[] = [];
  const notes: string[] = [];
  const domains = new Map<string, SourcedDomain>();
  for (const file of files) {
    const raw = readOne(file, problems);
    if (raw === undefined) continue;
    const read = readRatelimitFile(raw, {
      invalid: (path, reason) => problems.push(`${placeIn(file, path)}: ${reason}`),
      differs: (path, what) => notes.push(`${placeIn(file, path)}: ${what}`),
    });
    if (read === undefined) continue;
    const before = domains.get(read.domain);
    if (before !== undefined && !mayMerge) {
      problems.push(`${file}: domain: ${before.files[0]} has the same domain; use --merge-domains to merge them`);
      continue;
    }
    const earlier = before?.descriptors ?? [];
    const descriptors = [...earlier, ...read.descriptors];
    for (const { path, name } of repeatedDescriptors(descriptors, [])) {
      const index = Number(path[0]) - earlier.length;
      const place = placeIn(file, ["descriptors", index, ...path.slice(1)]);
      // Those of earlier files are reported already.
      if (index >= 0) problems.push(`${place}: duplicate descriptor ${JSON.stringify(name)}`);
    }
    domains.set(read.domain, { domain: read.domain, descriptors, files: [...(before?.files ?? []), file] });
  }
  if (problems.length > 0) throw new Error(`nothing was imported\n${problems.map((each) => `  ${each}`).join("\n")}`);
  return { domains: [...domains.values()], notes };
}

function readOne(file: string, problems: string[]): unknown {
  const { text = "", problems: unreadable } = readText(file);
  const parsed = parseYaml(text);
  const found = parsed.problems.map((problem) => `${file}: ${describeProblem(problem)}`);
  problems.push(...unreadable.map(describeProblem), ...found);
  return unreadable.length + found.length > 0 ? undefined : parsed.raw;
}

const introduction = (files: string) => ` Descriptor rules, written by \`tollgate import ratelimit\` from ${files}.
 A limit is a token bucket: it admits a burst of this size and refills evenly over the unit, while
 envoyproxy/ratelimit restarts its count with every second, minute or hour. See docs/RATE_LIMITS.md.`;

/** A part of our configuration file, with comments. */
function writtenRules(domains: readonly SourcedDomain[], notes: readonly string[]): string {
  const files = new Set(domains.flatMap((domain) => domain.files));
  const rate_limits = domains.map(({ domain, descriptors }) => ({ domain, descriptors }));
  const document = new Document({ rate_limits }, { aliasDuplicateObjects: false });
  const remarks = notes.length === 0 ? "" : `\n\n Differences:\n${notes.map((note) => `  - ${note}`).join("\n")}`;
  document.commentBefore = `${introduction([...files].join(", "))}${remarks}`;
  domains.forEach((domain, i) => {
    const node = document.getIn(["rate_limits", i], true);
    if (isNode(node)) node.commentBefore = ` ${domain.files.join(", ")}`;
  });
  visit(document, {
    Pair(_, { key, value }) {
      const isLimit = isScalar(key) && key.value === "rate_limit";
      if (isLimit && value instanceof YAMLMap) value.flow = true;
    },
    // Escapes ${, which begins a variable in our files but not in theirs.
    Scalar(role, scalar) {
      if (role !== "key" && typeof scalar.value === "string") scalar.value = scalar.value.replaceAll("${", () => "$${");
    },
  });
  return document.toString({ lineWidth: 120 });
}

/** Our limits on length and number may be stricter. */
function checkResult(text: string): void {
  const lines = readConfig(text, {}).problems.map((problem) => `\n  ${describeProblem(problem)}`);
  if (lines.length === 0) return;
  throw new Error(`nothing was imported: the resulting configuration is invalid${lines.join("")}`);
}
