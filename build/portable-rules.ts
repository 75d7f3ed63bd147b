/** What core and scripts may not say although it type-checks: each rule is something that means another thing in Lua. */
import ts from "typescript";
import { placeOf } from "./build-error.js";

/** Syntax that is refused wherever it stands, and why. */
const refusedSyntax = new Map<ts.SyntaxKind, string>([
  [ts.SyntaxKind.AnyKeyword, "no `any`: Lua is emitted by the types, so every value needs one"],
  [ts.SyntaxKind.ThrowStatement, "no `throw`: Redis hides the message; a refusal is a value"],
  [ts.SyntaxKind.TryStatement, "no `try`: nothing here throws"],
  [ts.SyntaxKind.ClassDeclaration, "no `class`: plain functions over plain data"],
  [ts.SyntaxKind.ClassExpression, "no `class`: plain functions over plain data"],
  [ts.SyntaxKind.NewExpression, "no `new`: plain functions over plain data"],
  [ts.SyntaxKind.ThisKeyword, "no `this`: plain functions over plain data"],
  [ts.SyntaxKind.EnumDeclaration, "no `enum`: write constants, which cost nothing at run time"],
  [ts.SyntaxKind.ModuleDeclaration, "no `namespace`: a file is the module"],
  [ts.SyntaxKind.AsyncKeyword, "no `async`: a decision waits for nothing"],
  [ts.SyntaxKind.AwaitExpression, "no `await`: a decision waits for nothing"],
  [ts.SyntaxKind.YieldExpression, "no generators: they are coroutines in Lua"],
  [ts.SyntaxKind.NullKeyword, "no `null`: Lua has one nothing, `undefined`"],
  [ts.SyntaxKind.RegularExpressionLiteral, "no regular expressions: Lua's patterns are others; see core/platform.ts"],
  [ts.SyntaxKind.ContinueStatement, "no `continue`: Lua 5.1 has none, and the way round it is slow"],
  [ts.SyntaxKind.LabeledStatement, "no labels: Lua 5.1 has none"],
  [ts.SyntaxKind.ForInStatement, "no `for … in`: Lua gives the keys in another order"],
  [ts.SyntaxKind.SpreadAssignment, "no spread of objects: it needs a helper; name the fields"],
  [ts.SyntaxKind.GetAccessor, "no accessors: they need a helper"],
  [ts.SyntaxKind.SetAccessor, "no accessors: they need a helper"],
  [ts.SyntaxKind.VoidExpression, "no `void`"],
  [ts.SyntaxKind.BigIntLiteral, "no bigint: Lua has doubles only"],
]);

const bitwise = "no bitwise operators: Lua 5.1 has none";
const looseEquality = "compare with === and !==";
const refusedOperators = new Map<ts.SyntaxKind, string>([
  [ts.SyntaxKind.EqualsEqualsToken, looseEquality],
  [ts.SyntaxKind.ExclamationEqualsToken, looseEquality],
  [ts.SyntaxKind.PercentToken, "no `%`: the sign of its result differs in Lua; use Math.floor"],
  [ts.SyntaxKind.PercentEqualsToken, "no `%`: the sign of its result differs in Lua; use Math.floor"],
  [ts.SyntaxKind.AsteriskAsteriskEqualsToken, "no `**=`: the last digit differs between machines; multiply"],
  [ts.SyntaxKind.CommaToken, "no comma operator"],
  ...[
    ts.SyntaxKind.AmpersandToken,
    ts.SyntaxKind.BarToken,
    ts.SyntaxKind.CaretToken,
    ts.SyntaxKind.LessThanLessThanToken,
    ts.SyntaxKind.GreaterThanGreaterThanToken,
    ts.SyntaxKind.GreaterThanGreaterThanGreaterThanToken,
    ts.SyntaxKind.AmpersandEqualsToken,
    ts.SyntaxKind.BarEqualsToken,
    ts.SyntaxKind.CaretEqualsToken,
    ts.SyntaxKind.LessThanLessThanEqualsToken,
    ts.SyntaxKind.GreaterThanGreaterThanEqualsToken,
    ts.SyntaxKind.GreaterThanGreaterThanGreaterThanEqualsToken,
  ].map((operator): [ts.SyntaxKind, string] => [operator, bitwise]),
]);

const comparisons = new Set([
  ts.SyntaxKind.LessThanToken,
  ts.SyntaxKind.LessThanEqualsToken,
  ts.SyntaxKind.GreaterThanToken,
  ts.SyntaxKind.GreaterThanEqualsToken,
]);

/** Everything in `file` that breaks a rule, as "file:line: what, and why". */
export function brokenRules(file: ts.SourceFile, checker: ts.TypeChecker): string[] {
  const problems: string[] = [];
  const report = (node: ts.Node, text: string) => problems.push(`${placeOf(node)}: ${text}`);

  function walk(node: ts.Node): void {
    const refused = refusedSyntax.get(node.kind);
    if (refused !== undefined && !isThisParameter(node)) report(node, refused);
    checkCondition(node);
    if (ts.isBinaryExpression(node)) checkBinary(node);
    if (ts.isPrefixUnaryExpression(node)) checkUnary(node);
    if (ts.isTemplateExpression(node)) checkTemplate(node);
    if (ts.isArrayLiteralExpression(node)) checkArray(node);
    if (ts.isVariableDeclarationList(node)) checkVariables(node);
    if (ts.isParameter(node) && node.initializer !== undefined) {
      report(node, "no default parameters: Lua knows no missing argument from nil; let the caller say it");
    }
    if (takesSelf(node)) {
      report(node, "write `this: void` as its first parameter, or make it a method: Lua would pass the object along");
    }
    ts.forEachChild(node, walk);
  }

  function checkCondition(node: ts.Node): void {
    if (ts.isIfStatement(node) || ts.isWhileStatement(node) || ts.isDoStatement(node)) demandBoolean(node.expression);
    else if (ts.isForStatement(node) && node.condition !== undefined) demandBoolean(node.condition);
    else if (ts.isConditionalExpression(node)) demandBoolean(node.condition);
  }

  function demandBoolean(node: ts.Expression): void {
    const type = checker.getTypeAtLocation(node);
    if (isOf(type, ts.TypeFlags.BooleanLike | ts.TypeFlags.Never)) return;
    const found = checker.typeToString(type);
    report(node, `a condition must be true or false, not ${found}: 0, "" and NaN count as true in Lua; compare`);
  }

  function checkBinary(node: ts.BinaryExpression): void {
    const operator = node.operatorToken.kind;
    const refused = refusedOperators.get(operator);
    if (refused !== undefined) report(node, refused);
    if (operator === ts.SyntaxKind.AmpersandAmpersandToken || operator === ts.SyntaxKind.BarBarToken) {
      demandBoolean(node.left);
    }
    if (operator === ts.SyntaxKind.AsteriskAsteriskToken && !(isNumber(node.left) && isNumber(node.right))) {
      report(node, "`**` between literals only: elsewhere the last digit differs between machines; multiply");
    }
    const left = checker.getTypeAtLocation(node.left);
    const right = checker.getTypeAtLocation(node.right);
    if (operator === ts.SyntaxKind.PlusToken || operator === ts.SyntaxKind.PlusEqualsToken) {
      const numbers = isOf(left, ts.TypeFlags.NumberLike) && isOf(right, ts.TypeFlags.NumberLike);
      const texts = isOf(left, ts.TypeFlags.StringLike) && isOf(right, ts.TypeFlags.StringLike);
      if (!numbers && !texts) {
        report(node, "`+` takes two numbers or two texts: Lua writes numbers with 14 digits; use wholeText");
      }
    }
    if (comparisons.has(operator)) {
      if (!isOf(left, ts.TypeFlags.NumberLike) || !isOf(right, ts.TypeFlags.NumberLike)) {
        report(node, "only numbers have an order here: Lua sorts texts by the machine's language");
      }
    }
  }

  function checkUnary(node: ts.PrefixUnaryExpression): void {
    if (node.operator === ts.SyntaxKind.ExclamationToken) demandBoolean(node.operand);
    if (node.operator === ts.SyntaxKind.TildeToken) report(node, bitwise);
    if (node.operator === ts.SyntaxKind.PlusToken) report(node, "no unary `+`: use wholeNumber or storedNumber");
  }

  function checkTemplate(node: ts.TemplateExpression): void {
    for (const { expression } of node.templateSpans) {
      if (isOf(checker.getTypeAtLocation(expression), ts.TypeFlags.StringLike)) continue;
      report(expression, "a template takes texts only: Lua writes numbers with 14 digits; use wholeText");
    }
  }

  function checkArray(node: ts.ArrayLiteralExpression): void {
    for (const element of node.elements) {
      if (ts.isSpreadElement(element)) report(element, "no spread in a list: it needs a helper; push in a loop");
      else if (mayBeUndefined(checker.getTypeAtLocation(element))) {
        report(element, "a list may not hold undefined: in Lua it ends there");
      }
    }
  }

  function checkVariables(node: ts.VariableDeclarationList): void {
    if ((node.flags & ts.NodeFlags.BlockScoped) === 0) report(node, "no `var`");
    const top = ts.isVariableStatement(node.parent) && ts.isSourceFile(node.parent.parent);
    if (top && (node.flags & ts.NodeFlags.Let) !== 0)
      report(node, "no variables outside of functions: state is passed in");
  }

  walk(file);
  return problems;
}

/** True for a type all of whose members have one of these flags. */
function isOf(type: ts.Type, flags: ts.TypeFlags): boolean {
  if (type.isUnion()) return type.types.every((member) => isOf(member, flags));
  if (type.isIntersection()) return type.types.some((member) => isOf(member, flags));
  if ((type.flags & ts.TypeFlags.TypeParameter) !== 0) {
    const constraint = type.getConstraint();
    return constraint !== undefined && isOf(constraint, flags);
  }
  return (type.flags & flags) !== 0;
}

function mayBeUndefined(type: ts.Type): boolean {
  if (type.isUnion()) return type.types.some(mayBeUndefined);
  return (type.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Void)) !== 0;
}

function isNumber(node: ts.Expression): boolean {
  return ts.isNumericLiteral(node);
}

/** `this: void` is how a function says that it wants no self. */
function isThisParameter(node: ts.Node): boolean {
  return node.kind === ts.SyntaxKind.ThisKeyword && ts.isParameter(node.parent);
}

/**
 * TypeScriptToLua calls a field whose type is written as a function like a method, with the object before the arguments.
 * A method, `add(by: number): number`, is called so in both languages and may stay.
 */
function takesSelf(node: ts.Node): boolean {
  if (!ts.isFunctionTypeNode(node)) return false;
  return (ts.isPropertySignature(node.parent) || ts.isIndexSignatureDeclaration(node.parent)) && !hasVoidThis(node);
}

function hasVoidThis(node: ts.SignatureDeclaration): boolean {
  const first = node.parameters[0];
  return (
    first !== undefined &&
    ts.isIdentifier(first.name) &&
    first.name.text === "this" &&
    first.type?.kind === ts.SyntaxKind.VoidKeyword
  );
}
