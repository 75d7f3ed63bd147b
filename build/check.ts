/** `npm run check`: core and scripts import only what they may, and say nothing that Lua does not have or means otherwise. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import ts from "typescript";
import { describeDiagnostic, placeOf } from "./build-error.js";
import { fromRoot, shown } from "./paths.js";
import { portableOptions, portableProgram, resolveImport } from "./portable-program.js";
import { brokenRules } from "./portable-rules.js";

export interface Room {
  folder: string;
  /** Folders that its files may import from, itself included. */
  mayImport: string[];
}

export const portableRooms: Room[] = [
  { folder: "src/core", mayImport: ["src/core"] },
  { folder: "src/engine", mayImport: ["src/engine", "src/core"] },
  { folder: "src/scripts", mayImport: ["src/scripts", "src/engine", "src/core"] },
];

/** The two sides of the host are where JavaScript and Lua may differ. A contract test compares them instead. */
const hostSides = ["src/core/platform.ts", "src/core/platform-lua.ts"].map(fromRoot);

/** All problems of these rooms, in the order of their files. */
export function checkRooms(rooms: Room[]): string[] {
  const files = rooms.flatMap((room) => sourcesIn(room.folder).map((path) => ({ path, room })));
  const program = portableProgram(
    files.map(({ path }) => path),
    { ...portableOptions, noEmit: true },
  );
  const checker = program.getTypeChecker();
  const problems = [...program.getOptionsDiagnostics(), ...program.getGlobalDiagnostics()].map(describeDiagnostic);
  for (const { path, room } of files) {
    const file = program.getSourceFile(path);
    if (file === undefined) continue;
    const stray = strayImports(file, room);
    const errors = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]
      // The compiler's advice on an import that may not be there would lead astray.
      .filter(({ start = -1 }) => !stray.some(({ node }) => start >= node.pos && start < node.end));
    problems.push(
      ...stray.map(({ node, text }) => `${placeOf(node)}: ${text}`),
      ...errors.map(explain),
      ...brokenRules(file, checker),
    );
  }
  return problems;
}

function sourcesIn(folder: string): string[] {
  return readdirSync(fromRoot(folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join(fromRoot(folder), name))
    .filter((path) => !hostSides.includes(path))
    .sort();
}

function strayImports(file: ts.SourceFile, room: Room): { node: ts.Statement; text: string }[] {
  const stray: { node: ts.Statement; text: string }[] = [];
  for (const statement of file.statements) {
    const specifier =
      ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement) ? statement.moduleSpecifier : undefined;
    if (specifier === undefined || !ts.isStringLiteral(specifier)) continue;
    const target = resolveImport(specifier.text, file.fileName);
    if (target !== undefined && room.mayImport.some((folder) => target.startsWith(`${fromRoot(folder)}/`))) continue;
    const name = target === undefined ? specifier.text : shown(target);
    stray.push({
      node: statement,
      text: `imports ${name}, but ${room.folder} may import only ${room.mayImport.join(", ")}`,
    });
  }
  return stray;
}

const CANNOT_FIND_NAME = [2304, 2318, 2580, 2583, 2584, 2585, 2591];
const NO_SUCH_PROPERTY = [2339, 2550, 2551];

/** The compiler's words, and for a thing that is missing the reason why it is. */
function explain(diagnostic: ts.Diagnostic): string {
  const text = describeDiagnostic(diagnostic);
  if (!CANNOT_FIND_NAME.includes(diagnostic.code) && !NO_SUCH_PROPERTY.includes(diagnostic.code)) return text;
  return `${text} Only what build/portable-lib.d.ts lists exists in both JavaScript and Lua.`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const problems = checkRooms(portableRooms);
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
