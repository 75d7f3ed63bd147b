/** The problems that stop a build or a check; each begins with its file and line. */
import ts from "typescript";
import { shown } from "./paths.js";

export class BuildError extends Error {
  constructor(readonly problems: string[]) {
    super(problems.join("\n"));
    this.name = "BuildError";
  }
}

/** "src/core/cost.ts:12" for a node. */
export function placeOf(node: ts.Node): string {
  const file = node.getSourceFile();
  return `${shown(file.fileName)}:${file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1}`;
}

export function describeDiagnostic(diagnostic: ts.Diagnostic): string {
  const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n  ");
  const { file, start } = diagnostic;
  if (file === undefined || start === undefined) return text;
  return `${shown(file.fileName)}:${file.getLineAndCharacterOfPosition(start).line + 1}: ${text}`;
}
