/**
 * Writes loops that count to an end that stays the same as Lua's own counting loops, which compare and count for nothing.
 * A list that the loop itself neither changes nor hands on counts as staying the same: a loop that changes it under
 * another name would still see all of its old length, and no more.
 */
import * as tstl from "typescript-to-lua";
import { withComments } from "./exits.js";
import { folded } from "./index-folding.js";
import { type Binding, forEachNode, type Names } from "./lua-names.js";

interface WhileLoop {
  variable: tstl.Identifier;
  from: tstl.Expression;
  below: tstl.Expression;
  body: tstl.Statement[];
}

export function writeCountingLoops(file: tstl.File, names: Names): void {
  const initial = new Map<Binding, tstl.Expression>();
  forEachNode(file, (node) => {
    if (!tstl.isVariableDeclarationStatement(node) || node.left.length !== 1 || node.right?.length !== 1) return;
    const [name] = node.left;
    const binding = name === undefined ? undefined : names.of(name);
    if (binding !== undefined && !binding.reassigned) initial.set(binding, node.right[0] as tstl.Expression);
  });
  forEachNode(file, (node) => {
    for (const list of Object.values(node).filter(Array.isArray)) {
      for (const [index, statement] of (list as tstl.Statement[]).entries()) {
        const loop = loopOf(statement, names);
        if (loop === undefined || !countsTo(loop, names, initial)) continue;
        const { variable, from, below, body } = loop;
        const one = tstl.createNumericLiteral(1);
        const last = tstl.createBinaryExpression(below, one, tstl.SyntaxKind.SubtractionOperator);
        const counting = tstl.createForStatement(tstl.createBlock(body), variable, from, folded(last));
        withComments(counting, statement.leadingComments);
        list[index] = counting;
      }
    }
  });
}

/** The compiler's form of `for (let i = from; i < below; i++)`. */
function loopOf(node: tstl.Statement, names: Names): WhileLoop | undefined {
  if (typeof node !== "object" || node === null || !tstl.isDoStatement(node) || node.statements.length !== 2) return;
  const [start, loop] = node.statements as [tstl.Statement, tstl.Statement];
  if (!tstl.isVariableDeclarationStatement(start) || !tstl.isWhileStatement(loop)) return;
  const [variable] = start.left;
  const [from] = start.right ?? [];
  const { condition } = loop;
  const body = loop.body.statements.slice(0, -1);
  const step = loop.body.statements.at(-1);
  if (variable === undefined || from === undefined || start.left.length !== 1 || step === undefined) return;
  const means = (expression: tstl.Expression | undefined) =>
    expression !== undefined && tstl.isIdentifier(expression) && names.of(expression) === names.of(variable);
  if (!tstl.isBinaryExpression(condition) || condition.operator !== tstl.SyntaxKind.LessThanOperator) return;
  if (!means(condition.left) || !isStep(step, means) || isTouched(body, means)) return;
  return { variable, from, below: condition.right, body };
}

/** `i = i + 1` */
function isStep(node: tstl.Statement, means: (expression: tstl.Expression | undefined) => boolean): boolean {
  if (!tstl.isAssignmentStatement(node) || node.left.length !== 1 || !means(node.left[0])) return false;
  const [sum] = node.right;
  if (sum === undefined || !tstl.isBinaryExpression(sum) || sum.operator !== tstl.SyntaxKind.AdditionOperator)
    return false;
  return means(sum.left) && tstl.isNumericLiteral(sum.right) && sum.right.value === 1;
}

/** The body assigns the variable, or makes a function that might keep it. */
function isTouched(body: tstl.Statement[], means: (expression: tstl.Expression) => boolean): boolean {
  let found = false;
  forEachNode(body, (node) => {
    if (tstl.isFunctionExpression(node)) found = true;
    if (tstl.isAssignmentStatement(node) && node.left.some(means)) found = true;
  });
  return found;
}

function countsTo({ from, below, body }: WhileLoop, names: Names, initial: Map<Binding, tstl.Expression>): boolean {
  /** Surely a whole number: where there are fractions, "below n" is not "up to n - 1". */
  function isWhole(node: tstl.Expression): boolean {
    if (tstl.isNumericLiteral(node)) return Number.isInteger(node.value);
    if (tstl.isUnaryExpression(node)) return node.operator === tstl.SyntaxKind.LengthOperator;
    if (tstl.isParenthesizedExpression(node)) return isWhole(node.expression);
    if (tstl.isBinaryExpression(node)) return isSum(node) && isWhole(node.left) && isWhole(node.right);
    const binding = tstl.isIdentifier(node) ? names.of(node) : undefined;
    const value = binding === undefined ? undefined : initial.get(binding);
    return value !== undefined && isWhole(value);
  }

  function staysTheSame(node: tstl.Expression): boolean {
    if (tstl.isNumericLiteral(node)) return true;
    if (tstl.isIdentifier(node)) return names.of(node)?.reassigned === false;
    if (tstl.isBinaryExpression(node)) return staysTheSame(node.left) && staysTheSame(node.right);
    if (!tstl.isUnaryExpression(node) || !tstl.isIdentifier(node.operand)) return false;
    const list = names.of(node.operand);
    return list !== undefined && !list.reassigned && isOnlyRead(list, body, names);
  }

  return isWhole(from) && isWhole(below) && staysTheSame(below);
}

function isSum({ operator }: tstl.BinaryExpression): boolean {
  return (
    operator === tstl.SyntaxKind.AdditionOperator ||
    operator === tstl.SyntaxKind.SubtractionOperator ||
    operator === tstl.SyntaxKind.MultiplicationOperator
  );
}

/** In the body the list is nothing but looked up, or asked for its length. */
function isOnlyRead(list: Binding, body: tstl.Statement[], names: Names): boolean {
  const means = (node: tstl.Expression) => tstl.isIdentifier(node) && names.of(node) === list;
  let uses = 0;
  forEachNode(body, (node) => {
    if (tstl.isIdentifier(node) && means(node)) uses++;
    if (tstl.isTableIndexExpression(node) && means(node.table)) uses--;
    if (tstl.isUnaryExpression(node) && node.operator === tstl.SyntaxKind.LengthOperator && means(node.operand)) uses--;
    if (tstl.isAssignmentStatement(node)) {
      uses += node.left.filter((target) => tstl.isTableIndexExpression(target) && means(target.table)).length;
    }
  });
  return uses === 0;
}
