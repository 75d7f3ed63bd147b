/** Writes the files that a build read as rules for make, so that the Makefile does not list them by hand. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import ts from "typescript";
import { fromRoot, shown } from "./paths.js";

/** A TypeScript file and everything it imports by a relative path, directly or not. */
export function importsOf(entry: string, found = new Set<string>()): Set<string> {
  if (found.has(entry)) return found;
  found.add(entry);
  for (const { fileName } of ts.preProcessFile(readFileSync(entry, "utf8")).importedFiles) {
    if (fileName.startsWith(".")) importsOf(resolve(dirname(entry), fileName.replace(/\.js$/, ".ts")), found);
  }
  return found;
}

/** `dist/.built/<name>.d`, which the Makefile includes. Files outside of the repository and packages are left out. */
export function writeDependencies(name: string, files: Iterable<string>): void {
  const target = `dist/.built/${name}`;
  const path = fromRoot(`${target}.d`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, dependencyRules(target, files));
}

/** The rule without prerequisites lets make rebuild, instead of failing, when a file was removed. */
export function dependencyRules(target: string, files: Iterable<string>): string {
  const own = [...new Set([...files].map(shown))].filter((path) => !/^\.\.\/|(^|\/)node_modules\//.test(path)).sort();
  return `${target}: ${own.join(" \\\n  ")}\n\n${own.map((path) => `${path}:\n`).join("")}`;
}
