/**
 * What TypeScriptToLua writes differently for the interpreter of Redis, where each lookup in a table and each call takes as long as
 * an addition several times over. LuaJIT does this by itself.
 */
import ts from "typescript";
import * as tstl from "typescript-to-lua";

/** The value of a numeric constant instead of its name. */
const inlineConstant: tstl.FunctionVisitor<ts.Identifier> = (node, context) => {
  const value = constantOf(node, context.checker);
  return value === undefined ? context.superTransformExpression(node) : tstl.createNumericLiteral(value, node);
};

function constantOf(node: ts.Identifier, checker: ts.TypeChecker): number | undefined {
  const named = checker.getSymbolAtLocation(node);
  if (named === undefined) return undefined;
  const symbol = (named.flags & ts.SymbolFlags.Alias) === 0 ? named : checker.getAliasedSymbol(named);
  const declaration = symbol.valueDeclaration;
  if (declaration === undefined || !ts.isVariableDeclaration(declaration)) return undefined;
  const isConst = (ts.getCombinedNodeFlags(declaration) & ts.NodeFlags.Const) !== 0;
  const { initializer } = declaration;
  return isConst && initializer !== undefined && ts.isNumericLiteral(initializer)
    ? Number(initializer.text)
    : undefined;
}

/** `a > b and a or b` instead of `Math.max(a, b)`, and likewise `Math.min`, if both are cheap and have no effects. */
const inlineExtreme: tstl.FunctionVisitor<ts.CallExpression> = (node, context) => {
  const comparison = comparisonOf(node.expression);
  const [a, b] = node.arguments;
  if (comparison === undefined || a === undefined || b === undefined || node.arguments.length !== 2) {
    return context.superTransformExpression(node);
  }
  if (!isCheap(a) || !isCheap(b)) return context.superTransformExpression(node);
  const left = () => context.transformExpression(a);
  const right = () => context.transformExpression(b);
  const isLeft = tstl.createBinaryExpression(left(), right(), comparison);
  const orRight = tstl.createBinaryExpression(isLeft, left(), tstl.SyntaxKind.AndOperator);
  return tstl.createParenthesizedExpression(
    tstl.createBinaryExpression(orRight, right(), tstl.SyntaxKind.OrOperator),
    node,
  );
};

function comparisonOf(callee: ts.Expression) {
  if (!ts.isPropertyAccessExpression(callee) || !ts.isIdentifier(callee.expression)) return undefined;
  if (callee.expression.text !== "Math") return undefined;
  if (callee.name.text === "max") return tstl.SyntaxKind.GreaterThanOperator;
  return callee.name.text === "min" ? tstl.SyntaxKind.LessThanOperator : undefined;
}

const ARITHMETIC = [
  ts.SyntaxKind.PlusToken,
  ts.SyntaxKind.MinusToken,
  ts.SyntaxKind.AsteriskToken,
  ts.SyntaxKind.SlashToken,
];

/** At most this many lookups and operations: the expression is evaluated twice. */
const MOST_STEPS = 6;

function isCheap(node: ts.Expression): boolean {
  return stepsOf(node) <= MOST_STEPS;
}

function stepsOf(node: ts.Expression): number {
  if (ts.isIdentifier(node) || ts.isNumericLiteral(node)) return 0;
  if (ts.isParenthesizedExpression(node) || ts.isNonNullExpression(node)) return stepsOf(node.expression);
  if (ts.isPropertyAccessExpression(node)) return stepsOf(node.expression) + 1;
  if (ts.isElementAccessExpression(node)) return stepsOf(node.expression) + stepsOf(node.argumentExpression) + 1;
  if (!ts.isBinaryExpression(node) || !ARITHMETIC.includes(node.operatorToken.kind)) return Number.POSITIVE_INFINITY;
  return stepsOf(node.left) + stepsOf(node.right) + 1;
}

export const interpreterVisitors: tstl.Visitors = {
  [ts.SyntaxKind.Identifier]: inlineConstant,
  [ts.SyntaxKind.CallExpression]: inlineExtreme,
};
