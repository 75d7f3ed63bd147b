/** Adds up the whole numbers in an index, `i * 3 + 3 + 1` to `i * 3 + 4`: lists begin at 1 in Lua. */
import * as tstl from "typescript-to-lua";
import { forEachNode } from "./lua-names.js";

export function foldIndexes(file: tstl.File): void {
  forEachNode(file, (node) => {
    if (tstl.isTableIndexExpression(node)) node.index = folded(node.index);
  });
}

/** The same sum with one whole number at its end. It must be a whole number itself: fractions depend on the order. */
export function folded(sum: tstl.Expression): tstl.Expression {
  const terms: tstl.Expression[] = [];
  const numbers: number[] = [];
  let isPlain = true;

  function collect(node: tstl.Expression): void {
    if (tstl.isNumericLiteral(node) && Number.isInteger(node.value)) {
      numbers.push(node.value);
    } else if (tstl.isBinaryExpression(node) && node.operator === tstl.SyntaxKind.AdditionOperator) {
      collect(node.left);
      collect(node.right);
    } else if (tstl.isBinaryExpression(node) && node.operator === tstl.SyntaxKind.SubtractionOperator) {
      collect(node.left);
      if (tstl.isNumericLiteral(node.right) && Number.isInteger(node.right.value)) numbers.push(-node.right.value);
      else isPlain = false;
    } else terms.push(node);
  }

  collect(sum);
  if (!isPlain || numbers.length < 2) return sum;
  const total = numbers.reduce((a, b) => a + b, 0);
  const [first, ...others] = terms;
  if (first === undefined) return tstl.createNumericLiteral(total);
  const { AdditionOperator, SubtractionOperator } = tstl.SyntaxKind;
  let result = first;
  for (const term of others) result = tstl.createBinaryExpression(result, term, AdditionOperator);
  if (total === 0) return result;
  const number = tstl.createNumericLiteral(Math.abs(total));
  return tstl.createBinaryExpression(result, number, total > 0 ? AdditionOperator : SubtractionOperator);
}
