/** The top-level declarations of a program, which of them its exports reach, and what uses what. */
import ts from "typescript";
import { BuildError } from "./build-error.js";
import { type Constant, constantOf } from "./constants.js";
import { type Declaration, declaredNames, type Module } from "./modules.js";
import { shown } from "./paths.js";

/** A declaration and what is known of its use. */
export interface Unit {
  node: Declaration;
  module: Module;
  usedAsType: boolean;
  usedAsValue: boolean;
  /** Something else is done with it than to call it. */
  usedUncalled: boolean;
  /** What it uses as a value: must come before it. */
  needs: Set<Unit>;
  constant: Constant | undefined;
  exported: boolean;
}

export interface Units {
  all: Unit[];
  checker: ts.TypeChecker;
  /** The declaration that a name in some module means, if it is one at the top of a module. */
  of(name: ts.Identifier): Unit | undefined;
  ofSymbol(symbol: ts.Symbol): Unit | undefined;
}

export function collectUnits(modules: Module[], checker: ts.TypeChecker): Units {
  const bySymbol = new Map<ts.Symbol, Unit>();
  const units: Units = {
    all: [],
    checker,
    of: (name) => {
      const symbol = meantBy(name, checker);
      return symbol === undefined ? undefined : bySymbol.get(symbol);
    },
    ofSymbol: (symbol) => bySymbol.get(unaliased(symbol, checker)),
  };
  for (const module of modules) {
    for (const node of module.declarations) {
      const unit: Unit = {
        node,
        module,
        usedAsType: false,
        usedAsValue: false,
        usedUncalled: false,
        needs: new Set(),
        constant: undefined,
        exported: false,
      };
      if (ts.isVariableStatement(node) && node.declarationList.declarations.length === 1) {
        const declaration = node.declarationList.declarations[0];
        if (declaration !== undefined) unit.constant = constantOf(declaration, (name) => units.of(name)?.constant);
      }
      for (const name of declaredNames(node)) {
        const symbol = checker.getSymbolAtLocation(name);
        if (symbol !== undefined) bySymbol.set(symbol, unit);
      }
      units.all.push(unit);
    }
  }
  return units;
}

/** The symbol behind a name, imports followed. */
export function meantBy(name: ts.Identifier, checker: ts.TypeChecker): ts.Symbol | undefined {
  const symbol = ts.isShorthandPropertyAssignment(name.parent)
    ? checker.getShorthandAssignmentValueSymbol(name.parent)
    : checker.getSymbolAtLocation(name);
  return symbol === undefined ? undefined : unaliased(symbol, checker);
}

export function unaliased(symbol: ts.Symbol, checker: ts.TypeChecker): ts.Symbol {
  return (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol);
}

/** The declarations behind these exports of the entry. */
export function rootUnits(program: ts.Program, entry: string, names: string[], units: Units): Unit[] {
  const file = program.getSourceFile(entry);
  const module = file === undefined ? undefined : units.checker.getSymbolAtLocation(file);
  const offered = module === undefined ? [] : units.checker.getExportsOfModule(module);
  return names.map((name) => {
    const symbol = offered.find((candidate) => candidate.name === name);
    const unit = symbol === undefined ? undefined : units.ofSymbol(symbol);
    if (unit === undefined)
      throw new BuildError([`${shown(entry)}: "${name}" is declared in no module of the program`]);
    unit.exported = true;
    return unit;
  });
}

export function markReachable(roots: Unit[], units: Units): void {
  const todo: { unit: Unit; asType: boolean }[] = roots.map((unit) => ({ unit, asType: false }));
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { unit, asType } = next;
    if (asType ? unit.usedAsType : unit.usedAsValue) continue;
    if (asType) unit.usedAsType = true;
    else unit.usedAsValue = true;
    forEachUse(unit.node, units, (used, name, inType) => {
      if (name.parent === used.node) return;
      if (!isCalled(name)) used.usedUncalled = true;
      if (!asType && !inType) unit.needs.add(used);
      if (used !== unit) todo.push({ unit: used, asType: asType || inType });
    });
  }
}

function forEachUse(
  node: ts.Node,
  units: Units,
  use: (unit: Unit, name: ts.Identifier, inType: boolean) => void,
): void {
  function walk(child: ts.Node, inType: boolean): void {
    if (ts.isIdentifier(child)) {
      const unit = units.of(child);
      if (unit !== undefined) use(unit, child, inType);
      return;
    }
    const type = inType || isTypeText(child);
    ts.forEachChild(child, (grandchild) => walk(grandchild, type));
  }
  walk(node, false);
}

/** Names in it are there for their types. */
export function isTypeText(node: ts.Node): boolean {
  return ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
}

function isCalled(name: ts.Identifier): boolean {
  return ts.isCallExpression(name.parent) && name.parent.expression === name;
}
