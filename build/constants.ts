/** Top-level constants that are numbers, texts or truth values: what to write in their place. */
import ts from "typescript";

export type ConstantValue = number | string | boolean;

export interface Constant {
  value: ConstantValue;
  /** TypeScript of the same value and type, safe in the middle of any expression. */
  text: string;
}

/** The constant that a declaration spells, if it is `const NAME = <literals and other constants>`. */
export function constantOf(
  declaration: ts.VariableDeclaration,
  lookUp: (name: ts.Identifier) => Constant | undefined,
): Constant | undefined {
  const { initializer, type } = declaration;
  if (initializer === undefined) return undefined;
  if (type !== undefined && !isPlainType(type)) return undefined;
  const value = evaluate(initializer, lookUp);
  if (value === undefined || (typeof value === "number" && !Number.isFinite(value))) return undefined;
  // A sum has the type `number`, a literal the type of that literal. Comparisons type-check by it, so it is kept.
  const wide = type !== undefined || !isLiteral(initializer);
  const literal = JSON.stringify(value);
  if (wide) return { value, text: `(${literal} as ${typeof value})` };
  return { value, text: typeof value === "number" && value < 0 ? `(${literal})` : literal };
}

function isPlainType(type: ts.TypeNode): boolean {
  return (
    type.kind === ts.SyntaxKind.NumberKeyword ||
    type.kind === ts.SyntaxKind.StringKeyword ||
    type.kind === ts.SyntaxKind.BooleanKeyword
  );
}

function isLiteral(node: ts.Expression): boolean {
  if (ts.isPrefixUnaryExpression(node)) return ts.isNumericLiteral(node.operand);
  return (
    ts.isNumericLiteral(node) ||
    ts.isStringLiteral(node) ||
    node.kind === ts.SyntaxKind.TrueKeyword ||
    node.kind === ts.SyntaxKind.FalseKeyword
  );
}

function evaluate(
  node: ts.Expression,
  lookUp: (name: ts.Identifier) => Constant | undefined,
): ConstantValue | undefined {
  if (ts.isNumericLiteral(node)) return Number(node.text);
  if (ts.isStringLiteral(node)) return node.text;
  if (node.kind === ts.SyntaxKind.TrueKeyword) return true;
  if (node.kind === ts.SyntaxKind.FalseKeyword) return false;
  if (ts.isIdentifier(node)) return lookUp(node)?.value;
  if (ts.isParenthesizedExpression(node)) return evaluate(node.expression, lookUp);
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.MinusToken) {
    const operand = evaluate(node.operand, lookUp);
    return typeof operand === "number" ? -operand : undefined;
  }
  if (!ts.isBinaryExpression(node)) return undefined;
  const left = evaluate(node.left, lookUp);
  const right = evaluate(node.right, lookUp);
  const operator = node.operatorToken.kind;
  if (typeof left === "string" && typeof right === "string") {
    return operator === ts.SyntaxKind.PlusToken ? left + right : undefined;
  }
  if (typeof left !== "number" || typeof right !== "number") return undefined;
  if (operator === ts.SyntaxKind.PlusToken) return left + right;
  if (operator === ts.SyntaxKind.MinusToken) return left - right;
  if (operator === ts.SyntaxKind.AsteriskToken) return left * right;
  if (operator === ts.SyntaxKind.SlashToken) return left / right;
  if (operator === ts.SyntaxKind.AsteriskAsteriskToken) return left ** right;
  return undefined;
}
