/**
 * Which functions are written out at their calls, and at which calls that changes nothing. Each run of a script builds
 * every function of it anew and a call costs as much again, so a function of one expression is best not there at all.
 */
import ts from "typescript";
import { costOfRepeating, isFieldAssignment, type Names, type Step, stepsOf } from "./evaluation.js";
import { isTypeText, meantBy, type Unit, type Units, unaliased } from "./units.js";

/** A function that is one expression. */
export interface Inlinable {
  parameters: { symbol: ts.Symbol; type: ts.TypeNode }[];
  /** What it returns, or, for one that returns nothing, the only thing that it does. */
  body: ts.Expression;
  isStatement: boolean;
  /** Undefined when the body has this type by itself. */
  returnType: ts.TypeNode | undefined;
  steps: Step[];
  /** The names in it that are not its own: they must mean the same where it is written out. */
  freeNames: Map<string, ts.Symbol>;
}

/** What an argument does. */
export interface Weight {
  /** See costOfRepeating. */
  cost: number;
  reads: boolean;
  acts: boolean;
}

/** What stands for a parameter while a call is written out. */
export interface Argument extends Weight {
  text: string;
}

export type Arguments = ReadonlyMap<ts.Symbol, Argument>;

/** Repeating an argument may cost this many look-ups and sums, which is still less than a call. */
const CHEAPER_THAN_A_CALL = 6;

/** What Lua offers and neither changes anything that a script can see nor depends on it. */
const harmless = /^(Math\.\w+|tonumber|unpack|string\.\w+|table\.concat)$/;

export interface Inlining {
  of(unit: Unit): Inlinable | undefined;
  /** What an argument of a call does. `within` are the arguments of the function that the call is written in. */
  weigh(argument: ts.Expression, within: Arguments): Weight | undefined;
}

export function inlining(units: Units): Inlining {
  const found = new Map<Unit, Inlinable | undefined>();

  function of(unit: Unit): Inlinable | undefined {
    if (!found.has(unit)) {
      found.set(unit, undefined);
      found.set(unit, mayBeInlined(unit) ? inlinableOf(unit.node, units, callOf) : undefined);
    }
    return found.get(unit);
  }

  function callOf(callee: ts.Expression): readonly Step[] {
    if (harmless.test(callee.getText()) && !isDefined(callee, units)) return [];
    const unit = ts.isIdentifier(callee) ? units.of(callee) : undefined;
    const steps = unit === undefined ? undefined : of(unit)?.steps;
    return steps?.filter(({ does }) => does !== "take") ?? [{ does: "act" }];
  }

  function weigh(argument: ts.Expression, within: Arguments): Weight | undefined {
    const boundTo = (name: ts.Identifier) => {
      const symbol = meantBy(name, units.checker);
      return symbol === undefined ? undefined : within.get(symbol);
    };
    const steps = stepsOf(argument, { isParameter: (name) => boundTo(name) !== undefined, callOf });
    if (steps === undefined) return undefined;
    const taken = steps.flatMap((step) => (step.does === "take" ? [boundTo(step.name)] : []));
    return {
      cost: costOfRepeating(argument, (name) => boundTo(name)?.cost ?? 0),
      reads: steps.some(({ does }) => does === "read") || taken.some((each) => each?.reads === true),
      acts: steps.some(({ does }) => does === "act") || taken.some((each) => each?.acts === true),
    };
  }

  return { of, weigh };
}

/** True for a name that is declared here, and not only as a part of the host. */
function isDefined(callee: ts.Expression, units: Units): boolean {
  const root = ts.isPropertyAccessExpression(callee) ? callee.expression : callee;
  const declaration = ts.isIdentifier(root) ? meantBy(root, units.checker)?.valueDeclaration : undefined;
  return declaration === undefined || (ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Ambient) === 0;
}

function mayBeInlined(unit: Unit): boolean {
  return unit.usedAsValue && !unit.exported && !unit.usedAsType && !unit.usedUncalled && !reaches(unit, unit);
}

function reaches(from: Unit, goal: Unit, seen: Set<Unit> = new Set()): boolean {
  for (const next of from.needs) {
    if (next === goal) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    if (reaches(next, goal, seen)) return true;
  }
  return false;
}

function inlinableOf(node: ts.Node, units: Units, callOf: Names["callOf"]): Inlinable | undefined {
  if (!ts.isFunctionDeclaration(node) || node.typeParameters !== undefined || node.asteriskToken !== undefined) return;
  const { checker } = units;
  const statement = node.body?.statements.length === 1 ? node.body.statements[0] : undefined;
  if (statement === undefined || node.type === undefined) return;
  const isStatement = ts.isExpressionStatement(statement);
  if (isStatement ? node.type.kind !== ts.SyntaxKind.VoidKeyword : !ts.isReturnStatement(statement)) return;
  const body = (statement as ts.ExpressionStatement | ts.ReturnStatement).expression;
  if (body === undefined || (isStatement && !ts.isCallExpression(body) && !isFieldAssignment(body))) return;

  const parameters: Inlinable["parameters"] = [];
  for (const { name, type, dotDotDotToken, questionToken, initializer } of node.parameters) {
    const symbol = ts.isIdentifier(name) && name.text !== "this" ? checker.getSymbolAtLocation(name) : undefined;
    if (symbol === undefined || type === undefined || dotDotDotToken || questionToken || initializer) return;
    parameters.push({ symbol, type });
  }
  const own = new Set(parameters.map(({ symbol }) => symbol));
  const freeNames = freeNamesOf([body, node.type, ...parameters.map(({ type }) => type)], own, units);
  const isParameter = (name: ts.Identifier) => own.has(meantBy(name, checker) as ts.Symbol);
  const steps = stepsOf(body, { isParameter, callOf });
  if (steps === undefined || freeNames === undefined || dependsOnNarrowing(body, own, checker)) return;
  const asDeclared = isStatement || checker.getTypeAtLocation(body) === checker.getTypeFromTypeNode(node.type);
  return { parameters, body, isStatement, returnType: asDeclared ? undefined : node.type, steps, freeNames };
}

/** Constants are written out and need no name. Undefined when a type speaks of a parameter: `value is number`. */
function freeNamesOf(nodes: ts.Node[], own: Set<ts.Symbol>, units: Units): Map<string, ts.Symbol> | undefined {
  const names = new Map<string, ts.Symbol>();
  let plain = true;
  function walk(node: ts.Node, inType: boolean): void {
    if (ts.isIdentifier(node)) {
      const symbol = meantBy(node, units.checker);
      const isMember = ts.isPropertyAccessExpression(node.parent) && node.parent.name === node;
      const isKey = ts.isPropertyAssignment(node.parent) && node.parent.name === node;
      if (symbol === undefined || isMember || isKey) return;
      if (own.has(symbol)) plain = plain && !inType;
      else if (inType || units.ofSymbol(symbol)?.constant === undefined) names.set(node.text, symbol);
      return;
    }
    ts.forEachChild(node, (child) => walk(child, inType || isTypeText(child)));
  }
  for (const node of nodes) walk(node, isTypeText(node));
  return plain ? names : undefined;
}

/** What the compiler knows of a parameter after a comparison, it would not know of what stands in its place. */
function dependsOnNarrowing(node: ts.Node, own: Set<ts.Symbol>, checker: ts.TypeChecker): boolean {
  if (ts.isTypeNode(node)) return false;
  let symbol: ts.Symbol | undefined;
  if (ts.isIdentifier(node)) symbol = meantBy(node, checker);
  if (ts.isPropertyAccessExpression(node)) symbol = checker.getSymbolAtLocation(node.name);
  if (symbol !== undefined && (own.has(symbol) || isField(node, symbol))) {
    if (checker.getTypeAtLocation(node) !== checker.getTypeOfSymbol(symbol)) return true;
  }
  return ts.forEachChild(node, (child) => dependsOnNarrowing(child, own, checker)) ?? false;
}

function isField(node: ts.Node, symbol: ts.Symbol): boolean {
  return ts.isPropertyAccessExpression(node) && (symbol.flags & ts.SymbolFlags.Property) !== 0;
}

/** True where everything the function names means there what it means in the function. */
export function meansTheSame(inlinable: Inlinable, site: ts.Node, checker: ts.TypeChecker): boolean {
  for (const [name, symbol] of inlinable.freeNames) {
    const there = checker.resolveName(name, site, ts.SymbolFlags.Value | ts.SymbolFlags.Type, false);
    // A name that is unknown there belongs to another module, and the flat program knows it.
    if (there !== undefined && unaliased(there, checker) !== symbol) return false;
  }
  return true;
}

/**
 * True when the arguments may stand in the parameters' places. A call evaluates all arguments first and the body then;
 * written out, each is evaluated where it is used. That must make no difference, and repeating it must cost little.
 */
export function maySubstitute(inlinable: Inlinable, given: Weight[], checker: ts.TypeChecker): boolean {
  const { parameters, steps } = inlinable;
  const uses = parameters.map(({ symbol }) =>
    steps.flatMap((step, at) => (step.does === "take" && meantBy(step.name, checker) === symbol ? [at] : [])),
  );
  const firstAct = steps.findIndex(({ does }) => does === "act");
  const cheap = given.every(({ cost }, index) => {
    const times = uses[index]?.length ?? 0;
    return (
      times === 1 || (times === 0 ? Number.isFinite(cost) : cost === 0 || (times - 1) * cost <= CHEAPER_THAN_A_CALL)
    );
  });
  const readsInTime = given.every(({ reads }, index) => {
    return !reads || firstAct < 0 || (uses[index] ?? []).every((at) => at < firstAct);
  });
  if (!cheap || !readsInTime) return false;

  const acting = given.findIndex(({ acts }) => acts);
  if (acting < 0) return true;
  const [at, ...more] = uses[acting] ?? [];
  const step = at === undefined ? undefined : steps[at];
  if (at === undefined || step?.does !== "take" || step.conditional || more.length > 0) return false;
  if (steps.slice(0, at).some(({ does }) => does !== "take")) return false;
  return given.every(({ reads, acts }, index) => {
    if (index === acting) return true;
    if (acts) return false;
    return !reads || (uses[index] ?? []).every((use) => (index < acting ? use < at : use > at));
  });
}
