/** Rules for portable code beyond type-checking: each rejects something that Lua lacks or that means something else in Lua. */
import ts from "typescript";
import { placeOf } from "./build-error.js";

/** Rejected syntax and the reason. */
const rejectedSyntax = new Map<ts.SyntaxKind, string>([
  [ts.SyntaxKind.AnyKeyword, "no `any`: the generated Lua depends on the types"],
  [ts.SyntaxKind.ThrowStatement, "no `throw`: a refusal is a value"],
  [ts.SyntaxKind.TryStatement, "no `try`: nothing here throws"],
  [ts.SyntaxKind.ClassDeclaration, "no `class`: plain functions over plain data"],
  [ts.SyntaxKind.ClassExpression, "no `class`: plain functions over plain data"],
  [ts.SyntaxKind.NewExpression, "no `new`: plain functions over plain data"],
  [ts.SyntaxKind.ThisKeyword, "no `this`: plain functions over plain data"],
  [ts.SyntaxKind.EnumDeclaration, "no `enum`: write constants"],
  [ts.SyntaxKind.ModuleDeclaration, "no `namespace`: a file is the module"],
  [ts.SyntaxKind.AsyncKeyword, "no `async`: portable code does not wait"],
  [ts.SyntaxKind.AwaitExpression, "no `await`: portable code does not wait"],
  [ts.SyntaxKind.YieldExpression, "no generators: they are coroutines in Lua"],
  [ts.SyntaxKind.NullKeyword, "no `null`: Lua has only nil, which is `undefined`"],
  [ts.SyntaxKind.RegularExpressionLiteral, "no regular expressions: Lua patterns differ; see core/platform.ts"],
  [ts.SyntaxKind.LabeledStatement, "no labels: Lua 5.1 has none"],
  [ts.SyntaxKind.ForInStatement, "no `for … in`: the order of keys differs in Lua"],
  [ts.SyntaxKind.GetAccessor, "no accessors: plain functions over plain data"],
  [ts.SyntaxKind.SetAccessor, "no accessors: plain functions over plain data"],
  [ts.SyntaxKind.VoidExpression, "no `void`"],
  [ts.SyntaxKind.BigIntLiteral, "no bigint: Lua has only doubles"],
]);

const bitwise = "no bitwise operators: Lua 5.1 has none";
const rejectedOperators = new Map([
  ...reasonFor("== !=", "compare with === and !=="),
  ...reasonFor("% %=", "no `%`: the sign of its result differs in Lua; use Math.floor"),
  ...reasonFor("**=", "no `**=`: the last digit differs between platforms; multiply"),
  ...reasonFor(",", "no comma operator"),
  ...reasonFor("& | ^ << >> >>> &= |= ^= <<= >>= >>>=", bitwise),
]);

function reasonFor(operators: string, reason: string): [operator: string, reason: string][] {
  return operators.split(" ").map((operator) => [operator, reason]);
}

/** Everything in `file` that breaks a rule, as "file:line: rule and reason". */
export function brokenRules(file: ts.SourceFile, checker: ts.TypeChecker): string[] {
  const problems: string[] = [];
  const report = (node: ts.Node, text: string) => problems.push(`${placeOf(node)}: ${text}`);

  function walk(node: ts.Node): void {
    const rejected = rejectedSyntax.get(node.kind);
    if (rejected !== undefined && !isThisParameter(node)) report(node, rejected);
    checkCondition(node);
    if (ts.isBinaryExpression(node)) checkBinary(node);
    if (ts.isPrefixUnaryExpression(node)) checkUnary(node);
    if (ts.isTemplateExpression(node)) checkTemplate(node);
    if (ts.isArrayLiteralExpression(node)) checkArray(node);
    if (ts.isVariableDeclarationList(node)) checkVariables(node);
    if (takesSelf(node)) {
      report(
        node,
        "write `this: void` as its first parameter, or make it a method: Lua would pass the object as an argument",
      );
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
    report(node, `a condition must be true or false, not ${found}: 0, "" and NaN are true in Lua; compare`);
  }

  function checkBinary(node: ts.BinaryExpression): void {
    const operator = node.operatorToken.getText(file);
    const rejected = rejectedOperators.get(operator);
    if (rejected !== undefined) report(node, rejected);
    if (operator === "&&" || operator === "||") demandBoolean(node.left);
    if (operator === "**" && !(ts.isNumericLiteral(node.left) && ts.isNumericLiteral(node.right))) {
      report(node, "`**` between literals only: elsewhere the last digit differs between platforms; multiply");
    }
    const both = (flags: ts.TypeFlags) =>
      [node.left, node.right].every((side) => isOf(checker.getTypeAtLocation(side), flags));
    if (["+", "+="].includes(operator) && !both(ts.TypeFlags.NumberLike) && !both(ts.TypeFlags.StringLike)) {
      report(node, "`+` takes two numbers or two texts: Lua formats numbers with 14 digits; use wholeText");
    }
    if (["<", "<=", ">", ">="].includes(operator) && !both(ts.TypeFlags.NumberLike)) {
      report(node, "only numbers can be compared: in Lua the order of texts depends on the locale");
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
      report(expression, "a template takes texts only: Lua formats numbers with 14 digits; use wholeText");
    }
  }

  function checkArray(node: ts.ArrayLiteralExpression): void {
    for (const element of node.elements) {
      if (ts.isSpreadElement(element))
        report(element, "no spread in a list: Lua limits it to some thousand items; push in a loop");
      else if (mayBeUndefined(checker.getTypeAtLocation(element))) {
        report(element, "a list may not hold undefined: in Lua it would end there");
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

/** `this: void` declares a function without self. */
function isThisParameter(node: ts.Node): boolean {
  return node.kind === ts.SyntaxKind.ThisKeyword && ts.isParameter(node.parent);
}

/**
 * TypeScriptToLua calls a field with a function type like a method, with the object as first argument. A method,
 * `add(by: number): number`, is called like that in both languages.
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
