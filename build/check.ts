/** `npm run check`: portable code uses nothing that Lua lacks or that means something else in Lua. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type ts from "typescript";
import { describeDiagnostic } from "./build-error.js";
import { fromRoot } from "./paths.js";
import { portableOptions, portableProgram } from "./portable-program.js";
import { brokenRules } from "./portable-rules.js";

export const portableFolders = ["src/core", "src/limit-rules", "src/engine", "src/scripts"];

/** The only files in which JavaScript and Lua differ. A contract test compares them. */
const platforms = ["src/core/platform.ts", "src/core/platform-lua.ts"].map(fromRoot);

/** All problems of these folders, in the order of their files. */
export function portabilityProblems(folders: string[]): string[] {
  const files = folders.flatMap(sourcesIn);
  const program = portableProgram(files, { ...portableOptions, noEmit: true });
  const problems = [...program.getOptionsDiagnostics(), ...program.getGlobalDiagnostics()].map(describeDiagnostic);
  for (const path of files) {
    const file = program.getSourceFile(path);
    if (file === undefined) continue;
    const errors = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    problems.push(...errors.map(explain), ...brokenRules(file, program.getTypeChecker()));
  }
  return problems;
}

function sourcesIn(folder: string): string[] {
  return readdirSync(fromRoot(folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join(fromRoot(folder), name))
    .filter((path) => !platforms.includes(path))
    .sort();
}

const CANNOT_FIND_NAME = [2304, 2318, 2580, 2583, 2584, 2585, 2591];
const NO_SUCH_PROPERTY = [2339, 2550, 2551];

/** The compiler's message, and for a missing name the reason. */
function explain(diagnostic: ts.Diagnostic): string {
  const text = describeDiagnostic(diagnostic);
  if (![...CANNOT_FIND_NAME, ...NO_SUCH_PROPERTY].includes(diagnostic.code)) return text;
  return `${text} Portable code can use only what build/portable-lib.d.ts declares.`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const problems = portabilityProblems(portableFolders);
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
