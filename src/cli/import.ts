/** `tollgate import`: converts rules of envoyproxy/ratelimit to our configuration. */
import { resolve } from "node:path";
import { parseYaml, readConfig, readText } from "../config/load.js";
import { describeProblem } from "../config/problem.js";
import { type Command, FINE, flagOption, readArguments, readChoice, textOption, UsageError } from "./command.js";
import { placeIn, readRatelimitFile, repeatedDescriptors } from "./import/ratelimit-file.js";
import { type SourcedDomain, writtenRules } from "./import/written-rules.js";
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
    if (values.out === undefined) return { text, exitCode: FINE, complaint };
    replaceFile(resolve(values.out), text);
    return { text: `${values.out}\n`, exitCode: FINE, complaint };
  },
};

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
  const { text, problems: unreadable } = readText(file);
  if (text === undefined) {
    problems.push(...unreadable.map(describeProblem));
    return undefined;
  }
  const parsed = parseYaml(text);
  problems.push(...parsed.problems.map((problem) => `${file}: ${describeProblem(problem)}`));
  return parsed.problems.length > 0 ? undefined : parsed.raw;
}

/** Our limits on length and number may be stricter. */
function checkResult(text: string): void {
  const lines = readConfig(text, {}).problems.map((problem) => `\n  ${describeProblem(problem)}`);
  if (lines.length === 0) return;
  throw new Error(`nothing was imported: the resulting configuration is invalid${lines.join("")}`);
}
