/** What an expression does, in the order in which it does it: as much as inlining has to know to change nothing. */
import ts from "typescript";

/**
 * One thing that evaluation does: takes a name that stands for a parameter, reads what an act could change, or acts,
 * which is to call or to write. Where one of two branches is taken, the steps of both are listed.
 */
export type Step = { does: "take"; name: ts.Identifier; conditional: boolean } | { does: "read" } | { does: "act" };

export interface Names {
  isParameter(name: ts.Identifier): boolean;
  /** What a call of this function does besides evaluating its arguments; an act, unless it is known to be less. */
  callOf(callee: ts.Expression): readonly Step[];
}

const logical = new Set([
  ts.SyntaxKind.AmpersandAmpersandToken,
  ts.SyntaxKind.BarBarToken,
  ts.SyntaxKind.QuestionQuestionToken,
]);

/** The steps of an expression, or of an assignment to a field. Undefined for whatever is not listed here. */
export function stepsOf(expression: ts.Expression, names: Names): Step[] | undefined {
  const steps: Step[] = [];
  let known = true;

  function walk(node: ts.Expression, conditional: boolean): void {
    if (ts.isIdentifier(node)) {
      if (names.isParameter(node)) steps.push({ does: "take", name: node, conditional });
    } else if (isWrapper(node) || ts.isSpreadElement(node) || ts.isTypeOfExpression(node)) {
      walk(node.expression, conditional);
    } else if (ts.isPropertyAccessExpression(node) && node.questionDotToken === undefined) {
      walk(node.expression, conditional);
      steps.push({ does: "read" });
    } else if (ts.isElementAccessExpression(node) && node.questionDotToken === undefined) {
      walk(node.expression, conditional);
      walk(node.argumentExpression, conditional);
      steps.push({ does: "read" });
    } else if (ts.isCallExpression(node) && node.questionDotToken === undefined) {
      if (!ts.isIdentifier(node.expression)) walk(node.expression, conditional);
      for (const argument of node.arguments) walk(argument, conditional);
      steps.push(...names.callOf(node.expression));
    } else if (ts.isPrefixUnaryExpression(node) && !isStep(node.operator)) {
      walk(node.operand, conditional);
    } else if (ts.isBinaryExpression(node) && !isAssignment(node)) {
      walk(node.left, conditional);
      walk(node.right, conditional || logical.has(node.operatorToken.kind));
    } else if (ts.isConditionalExpression(node)) {
      walk(node.condition, conditional);
      walk(node.whenTrue, true);
      walk(node.whenFalse, true);
    } else if (ts.isTemplateExpression(node) && isOnOneLine(node)) {
      for (const span of node.templateSpans) walk(span.expression, conditional);
    } else if (ts.isArrayLiteralExpression(node)) {
      for (const element of node.elements) walk(element, conditional);
    } else if (ts.isObjectLiteralExpression(node)) {
      for (const property of node.properties) walkProperty(property, conditional);
    } else if (!isLiteral(node) || !isOnOneLine(node)) {
      known = false;
    }
  }

  function walkProperty(property: ts.ObjectLiteralElementLike, conditional: boolean): void {
    if (ts.isShorthandPropertyAssignment(property)) walk(property.name, conditional);
    else if (ts.isPropertyAssignment(property) && !ts.isComputedPropertyName(property.name)) {
      walk(property.initializer, conditional);
    } else known = false;
  }

  if (ts.isBinaryExpression(expression) && isFieldAssignment(expression)) {
    walk(expression.left, false);
    // The field itself is written and not read.
    steps.pop();
    walk(expression.right, false);
    steps.push({ does: "act" });
  } else {
    walk(expression, false);
  }
  return known ? steps : undefined;
}

export function isFieldAssignment(node: ts.Expression): boolean {
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.EqualsToken) return false;
  return ts.isPropertyAccessExpression(node.left) || ts.isElementAccessExpression(node.left);
}

/** Text with a line end in it cannot be brought onto one line. */
function isOnOneLine(text: ts.Expression): boolean {
  return !text.getText().includes("\n");
}

/** Leaves nothing behind in Lua but what is in it. */
function isWrapper(
  node: ts.Expression,
): node is ts.ParenthesizedExpression | ts.AsExpression | ts.SatisfiesExpression | ts.NonNullExpression {
  return (
    ts.isParenthesizedExpression(node) ||
    ts.isAsExpression(node) ||
    ts.isSatisfiesExpression(node) ||
    ts.isNonNullExpression(node)
  );
}

function isAssignment(node: ts.BinaryExpression): boolean {
  const operator = node.operatorToken.kind;
  if (operator === ts.SyntaxKind.CommaToken) return true;
  return operator >= ts.SyntaxKind.FirstAssignment && operator <= ts.SyntaxKind.LastAssignment;
}

function isStep(operator: ts.PrefixUnaryOperator): boolean {
  return operator === ts.SyntaxKind.PlusPlusToken || operator === ts.SyntaxKind.MinusMinusToken;
}

function isLiteral(node: ts.Expression): boolean {
  return (
    ts.isNumericLiteral(node) ||
    ts.isStringLiteral(node) ||
    ts.isNoSubstitutionTemplateLiteral(node) ||
    node.kind === ts.SyntaxKind.TrueKeyword ||
    node.kind === ts.SyntaxKind.FalseKeyword
  );
}

/**
 * What it costs to evaluate an expression once more: 0 for a name or a literal, 1 for each field, item or sum in it.
 * Infinity for what must not be repeated at all. `costOf` answers for names that stand for something else.
 */
export function costOfRepeating(node: ts.Expression, costOf: (name: ts.Identifier) => number): number {
  const cost = (part: ts.Expression): number => costOfRepeating(part, costOf);
  if (ts.isIdentifier(node)) return costOf(node);
  if (isLiteral(node)) return 0;
  if (isWrapper(node)) return cost(node.expression);
  if (ts.isPrefixUnaryExpression(node)) return ts.isNumericLiteral(node.operand) ? 0 : 1 + cost(node.operand);
  if (ts.isPropertyAccessExpression(node)) return 1 + cost(node.expression);
  if (ts.isElementAccessExpression(node)) return 1 + cost(node.expression) + cost(node.argumentExpression);
  if (!ts.isBinaryExpression(node) || !arithmetic.has(node.operatorToken.kind)) return Number.POSITIVE_INFINITY;
  return 1 + cost(node.left) + cost(node.right);
}

const arithmetic = new Set([
  ts.SyntaxKind.PlusToken,
  ts.SyntaxKind.MinusToken,
  ts.SyntaxKind.AsteriskToken,
  ts.SyntaxKind.SlashToken,
]);
