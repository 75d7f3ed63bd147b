/** The modules behind an entry, callees before callers, and in each its top-level declarations. Strict about imports. */
import ts from "typescript";
import { BuildError, placeOf } from "./build-error.js";
import { shown } from "./paths.js";
import { resolveImport } from "./portable-program.js";

export type Declaration =
  | ts.FunctionDeclaration
  | ts.VariableStatement
  | ts.InterfaceDeclaration
  | ts.TypeAliasDeclaration;

export interface Module {
  file: ts.SourceFile;
  declarations: Declaration[];
}

/** Modules in the order in which their code must run. `exports` are the names the entry offers. */
export function readModules(
  program: ts.Program,
  entry: string,
  folders: string[],
): { modules: Module[]; exports: string[] } {
  const problems: string[] = [];
  const done = new Map<string, Module>();
  const waiting: string[] = [];
  const typesOnly: string[] = [];
  const exports: string[] = [];

  function visit(path: string): void {
    if (done.has(path)) return;
    const file = program.getSourceFile(path);
    if (file === undefined) throw new BuildError([`${shown(path)}: there is no such file`]);
    waiting.push(path);
    const module: Module = { file, declarations: [] };
    for (const statement of file.statements) {
      if (ts.isImportDeclaration(statement)) followImport(statement, path);
      else if (ts.isExportDeclaration(statement)) followReExport(statement, path);
      else if (isDeclaration(statement)) {
        module.declarations.push(statement);
        if (path === entry) exports.push(...exportedNames(statement));
      } else {
        problems.push(`${placeOf(statement)}: only functions, constants and types may stand at the top of a module`);
      }
    }
    waiting.pop();
    done.set(path, module);
  }

  function follow(specifier: ts.Expression, importer: string, typeOnly: boolean): void {
    if (!ts.isStringLiteral(specifier)) return;
    const path = resolveImport(specifier.text, importer);
    if (path === undefined || !folders.some((folder) => path.startsWith(`${folder}/`))) {
      problems.push(
        `${placeOf(specifier)}: imports "${specifier.text}", which lies outside ${folders.map(shown).join(", ")}`,
      );
    } else if (typeOnly) {
      typesOnly.push(path);
    } else if (waiting.includes(path)) {
      const circle = [...waiting.slice(waiting.indexOf(path)), path].map(shown).join(" → ");
      problems.push(`${placeOf(specifier)}: modules import each other in a circle: ${circle}`);
    } else {
      visit(path);
    }
  }

  function followImport(node: ts.ImportDeclaration, importer: string): void {
    const bindings = node.importClause?.namedBindings;
    if (bindings === undefined || !ts.isNamedImports(bindings) || node.importClause?.name !== undefined) {
      problems.push(`${placeOf(node)}: import by name, { like, this }: the flat program has no modules to name`);
      return;
    }
    refuseRenames(bindings.elements);
    follow(node.moduleSpecifier, importer, isTypeOnly(node.importClause, bindings.elements));
  }

  function followReExport(node: ts.ExportDeclaration, importer: string): void {
    const { exportClause, moduleSpecifier } = node;
    const named = exportClause !== undefined && ts.isNamedExports(exportClause) ? exportClause.elements : undefined;
    if (moduleSpecifier === undefined || named === undefined) {
      problems.push(`${placeOf(node)}: export a thing where it is declared`);
      return;
    }
    const typeOnly = node.isTypeOnly || named.every((element) => element.isTypeOnly);
    if (importer !== entry && !typeOnly) {
      problems.push(`${placeOf(node)}: only the entry of a program may re-export`);
      return;
    }
    refuseRenames(named);
    if (!node.isTypeOnly) {
      exports.push(...named.filter((element) => !element.isTypeOnly).map((element) => element.name.text));
    }
    follow(moduleSpecifier, importer, typeOnly);
  }

  function refuseRenames(elements: readonly (ts.ImportSpecifier | ts.ExportSpecifier)[]): void {
    for (const element of elements) {
      if (element.propertyName === undefined) continue;
      problems.push(
        `${placeOf(element)}: "${element.propertyName.text}" is renamed to "${element.name.text}": ` +
          "in the flat program a thing has one name",
      );
    }
  }

  visit(entry);
  for (let path = typesOnly.pop(); path !== undefined; path = typesOnly.pop()) visit(path);
  if (problems.length > 0) throw new BuildError(problems);
  return { modules: [...done.values()], exports };
}

function isTypeOnly(clause: ts.ImportClause | undefined, elements: readonly ts.ImportSpecifier[]): boolean {
  return (
    clause?.phaseModifier === ts.SyntaxKind.TypeKeyword ||
    (elements.length > 0 && elements.every((element) => element.isTypeOnly))
  );
}

function isDeclaration(node: ts.Statement): node is Declaration {
  if (ts.isFunctionDeclaration(node)) return node.name !== undefined && !isDefaultExport(node);
  if (ts.isVariableStatement(node)) {
    const { flags, declarations } = node.declarationList;
    return (flags & ts.NodeFlags.Const) !== 0 && declarations.every(({ name }) => ts.isIdentifier(name));
  }
  return ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
}

function isDefaultExport(node: ts.FunctionDeclaration): boolean {
  return node.modifiers?.some((modifier) => modifier.kind === ts.SyntaxKind.DefaultKeyword) === true;
}

function exportedNames(node: Declaration): string[] {
  if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return [];
  if (node.modifiers?.some((modifier) => modifier.kind === ts.SyntaxKind.ExportKeyword) !== true) return [];
  return declaredNames(node).map((name) => name.text);
}

export function declaredNames(node: Declaration): ts.Identifier[] {
  if (!ts.isVariableStatement(node)) return node.name === undefined ? [] : [node.name];
  return node.declarationList.declarations.map((declaration) => declaration.name).filter(ts.isIdentifier);
}
