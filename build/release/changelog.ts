/** Reads and changes CHANGELOG.md: sections by version, the newest first, below "Unreleased". */

const UNRELEASED = "## Unreleased";

/** The section of a version, without its heading. Throws if there is none, or if it is empty. */
export function notesOf(changelog: string, version: string): string {
  const heading = version === "Unreleased" ? UNRELEASED : `## ${version} `;
  const lines = changelog.split("\n");
  const start = lines.findIndex((line) => `${line} `.startsWith(heading));
  if (start < 0) throw new Error(`CHANGELOG.md: there is no section "${heading.trim()}"`);
  const length = lines.slice(start + 1).findIndex((line) => line.startsWith("## "));
  const notes = lines.slice(start + 1, length < 0 ? undefined : start + 1 + length).join("\n");
  if (!/^- /m.test(notes)) throw new Error(`CHANGELOG.md: the section "${heading.trim()}" lists no change`);
  return notes.trim();
}

/** The changelog with the unreleased changes as the section of a version. */
export function promote(changelog: string, version: string, date: string): string {
  notesOf(changelog, "Unreleased");
  if (changelog.includes(`\n## ${version} `)) throw new Error(`CHANGELOG.md: ${version} is already listed`);
  return changelog.replace(`\n${UNRELEASED}\n`, `\n${UNRELEASED}\n\n## ${version} (${date})\n`);
}

/** Throws unless `next` is a version that can follow `current`. The same version is allowed for the first release. */
export function requireNext(current: string, next: string, isFirst: boolean): void {
  if (!/^\d+\.\d+\.\d+$/.test(next)) throw new Error(`VERSION=${next}: expected MAJOR.MINOR.PATCH, for example 1.2.3`);
  const order = next.localeCompare(current, "en", { numeric: true });
  if (order < 0 || (order === 0 && !isFirst)) throw new Error(`VERSION=${next} must be above ${current}`);
}
