/** docs/reference/performance.md: `make bench` and `make compare` each write their part of it. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { fromRoot } from "../build/paths.js";

const FILE = fromRoot("docs/reference/performance.md");
const PARTS = { bench: "Benchmarks", compare: "Comparison" } as const;

const EMPTY = `# Performance

\`make compare\` and \`make bench\` write this page: do not edit it. The figures in the README are those of the comparison. [GROWTH](../GROWTH.md) and
[PLANNING](../PLANNING.md) have figures of their own. Ratios are within one run on one machine.
[bench/README](https://github.com/tollgate/tollgate/blob/main/bench/README.md) explains what each benchmark measures.
`;

const begin = (part: string) => `<!-- ${part}: begin -->`;
const end = (part: string) => `<!-- ${part}: end -->`;

export function machineText(): string {
  const { model } = cpus()[0] ?? { model: "unknown CPU" };
  return `${cpus().length} cores (${model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`;
}

/** Of Tollgate: the version in package.json is that of the last release. */
export function versionText(): string {
  return `commit ${execFileSync("git", ["rev-parse", "--short=8", "HEAD"], { cwd: fromRoot("."), encoding: "utf8" }).trim()}`;
}

/** Replaces one part and keeps the others. */
export function writePart(part: keyof typeof PARTS, text: string): void {
  mkdirSync(fromRoot("docs/reference"), { recursive: true });
  const page = existsSync(FILE) ? readFileSync(FILE, "utf8") : EMPTY;
  writeFileSync(FILE, withPart(page, part, text));
}

/** Replaces the table in the README. */
export function writeReadme(table: string): void {
  const file = fromRoot("README.md");
  const page = readFileSync(file, "utf8");
  const [from, to] = [page.indexOf(begin("compare")), page.indexOf(end("compare"))];
  if (from < 0 || to < from) throw new Error("README.md has no place for the comparison");
  writeFileSync(file, `${page.slice(0, from)}${begin("compare")}\n\n${table}\n\n${page.slice(to)}`);
}

export function withPart(page: string, part: keyof typeof PARTS, text: string): string {
  const block = `${begin(part)}\n## ${PARTS[part]}\n\n${text.trim()}\n${end(part)}`;
  const [from, to] = [page.indexOf(begin(part)), page.indexOf(end(part))];
  if (from < 0 || to < from) return `${page.trimEnd()}\n\n${block}\n`;
  return page.slice(0, from) + block + page.slice(to + end(part).length);
}
