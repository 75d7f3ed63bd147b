/** `tollgate import`: the rules of another rate limiter, as a part of our configuration. */
import { renameSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseYaml, readConfig, readText } from "../config/load.js";
import { describeProblem } from "../config/problem.js";
import { type Command, type Outcome, readArguments, UsageError } from "./command.js";
import { FINE } from "./exit-codes.js";
import { placeIn, readRatelimitFile, repeatedDescriptors } from "./import/ratelimit-file.js";
import { type SourcedDomain, writtenRules } from "./import/written-rules.js";

const help = `Usage: tollgate import ratelimit FILE… [--out FILE] [--merge-domains]

Reads the configuration files of envoyproxy/ratelimit and writes the same rules as \`rate_limits\` of ours: nested
descriptors, values with *, unlimited, shadow_mode, quota_mode, replaces, share_threshold, metadata. What is not the same
here is said on stderr, and in comments. A file that envoyproxy/ratelimit would refuse is refused, with every mistake and
its place; then nothing is written.

  --out FILE         where it goes, else to stdout; made anew if it is there
  --merge-domains    files may have the same domain: their descriptors are put together

Exit code 0 where it is written, 1 where a file is not right, 2 for a wrong call.

Example:
  tollgate import ratelimit ratelimit/config/*.yaml --out rate-limits.yaml
`;

export const importCommand: Command = {
  name: "import",
  summary: "The rules of envoyproxy/ratelimit as a part of a configuration",
  help,
  run(args) {
    const { values, words } = readArguments(args, {
      out: { type: "string" },
      "merge-domains": { type: "boolean", default: false },
    });
    const [from, ...files] = words;
    if (from !== "ratelimit") throw new UsageError("say what to import: ratelimit");
    if (files.length === 0) throw new UsageError("give one or more files");
    const { domains, notes } = readFiles(files, values["merge-domains"]);
    const text = writtenRules(domains, notes);
    checkResult(text);
    return values.out === undefined ? said(text, notes) : said(write(values.out, text), notes);
  },
};

function said(text: string, notes: string[]): Outcome {
  const complaint = `not the same here:\n${notes.map((note) => `  ${note}`).join("\n")}`;
  return { text, exitCode: FINE, ...(notes.length === 0 ? {} : { complaint }) };
}

function readFiles(files: string[], mayMerge: boolean) {
  const mistakes: string[] = [];
  const notes: string[] = [];
  const domains = new Map<string, SourcedDomain>();
  for (const file of files) {
    const raw = readOne(file, mistakes);
    if (raw === undefined) continue;
    const read = readRatelimitFile(raw, {
      wrong: (path, reason) => mistakes.push(`${placeIn(file, path)}: ${reason}`),
      differs: (path, what) => notes.push(`${placeIn(file, path)}: ${what}`),
    });
    if (read === undefined) continue;
    const before = domains.get(read.domain);
    if (before !== undefined && !mayMerge) {
      mistakes.push(`${file}: domain: ${before.files[0]} has the same domain; --merge-domains puts them together`);
      continue;
    }
    const descriptors = [...(before?.descriptors ?? []), ...read.descriptors];
    const known = new Set(repeatedDescriptors(before?.descriptors ?? [], []).map(({ path }) => path.join()));
    const offset = before?.descriptors.length ?? 0;
    for (const { path, name } of repeatedDescriptors(descriptors, [])) {
      if (known.has(path.join())) continue;
      const [first, ...rest] = path;
      const place = placeIn(file, ["descriptors", Number(first) - offset, ...rest]);
      mistakes.push(`${place}: there is a descriptor ${JSON.stringify(name)} already`);
    }
    domains.set(read.domain, { domain: read.domain, descriptors, files: [...(before?.files ?? []), file] });
  }
  if (mistakes.length > 0) throw new Error(`nothing was imported\n${mistakes.map((each) => `  ${each}`).join("\n")}`);
  return { domains: [...domains.values()], notes };
}

function readOne(file: string, mistakes: string[]): unknown {
  const { text, problems } = readText(file);
  if (text === undefined) {
    mistakes.push(...problems.map(describeProblem));
    return undefined;
  }
  const parsed = parseYaml(text);
  mistakes.push(...parsed.problems.map((problem) => `${file}: ${describeProblem(problem)}`));
  return parsed.problems.length > 0 ? undefined : parsed.raw;
}

/** What is right there may be too long or too much here. */
function checkResult(text: string): void {
  const { problems } = readConfig(text, {});
  if (problems.length === 0) return;
  throw new Error(
    `nothing was imported: the configuration would not be right\n${problems.map((problem) => `  ${describeProblem(problem)}`).join("\n")}`,
  );
}

function write(out: string, text: string): string {
  const path = resolve(out);
  const next = `${path}.${process.pid}`;
  writeFileSync(next, text);
  renameSync(next, path);
  return `${out}\n`;
}
