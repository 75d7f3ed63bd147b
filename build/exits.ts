/** Turns the ways out of a function's body into statements after which its end is reached, or says that it cannot. */
import * as tstl from "typescript-to-lua";
import { forEachNode } from "./lua-names.js";

/** What is done instead of returning these; undefined when there is no such thing. */
export type Finish = (returned: tstl.Expression[]) => tstl.Statement[] | undefined;

export interface Settled {
  statements: tstl.Statement[];
  /** The end can be reached without a return. */
  falls: boolean;
}

/** Statements after `if … return … end` go into the other branch. Undefined for a return from within a loop. */
export function settle(statements: tstl.Statement[], finish: Finish): Settled | undefined {
  const settled: tstl.Statement[] = [];
  for (const [index, statement] of statements.entries()) {
    if (tstl.isReturnStatement(statement)) {
      const last = finish(statement.expressions);
      if (last === undefined) return undefined;
      withComments(last[0], statement.leadingComments);
      return { statements: [...settled, ...last], falls: false };
    }
    if (!hasReturn(statement)) {
      settled.push(statement);
      continue;
    }
    const rest = statements.slice(index + 1);
    const end = tstl.isDoStatement(statement)
      ? settleBlock(statement, rest, finish)
      : tstl.isIfStatement(statement)
        ? settleBranches(statement, rest, finish)
        : undefined;
    if (end === undefined) return undefined;
    return { statements: [...settled, ...end.statements], falls: end.falls };
  }
  return { statements: settled, falls: true };
}

function settleBlock(block: tstl.DoStatement, rest: tstl.Statement[], finish: Finish): Settled | undefined {
  const inner = settle([...block.statements, ...rest], finish);
  if (inner === undefined) return undefined;
  block.statements = inner.statements;
  return { statements: [block], falls: inner.falls };
}

function settleBranches(node: tstl.IfStatement, rest: tstl.Statement[], finish: Finish): Settled | undefined {
  const { ifBlock, elseBlock } = node;
  const otherwise = elseBlock === undefined ? [] : tstl.isIfStatement(elseBlock) ? [elseBlock] : elseBlock.statements;
  const thenFalls = !alwaysReturns(ifBlock.statements);
  const elseFalls = !alwaysReturns(otherwise);
  // What comes after would have to stand in both branches.
  if (thenFalls && elseFalls && rest.length > 0) return undefined;
  const whenTrue = settle([...ifBlock.statements, ...(thenFalls ? rest : [])], finish);
  const whenFalse = settle([...otherwise, ...(elseFalls ? rest : [])], finish);
  if (whenTrue === undefined || whenFalse === undefined) return undefined;
  const branches = ifStatement(node.condition, whenTrue.statements, whenFalse.statements);
  withComments(branches, node.leadingComments);
  return { statements: [branches], falls: whenTrue.falls || whenFalse.falls };
}

export function ifStatement(
  condition: tstl.Expression,
  whenTrue: tstl.Statement[],
  whenFalse: tstl.Statement[],
): tstl.IfStatement {
  if (whenTrue.length === 0 && whenFalse.length > 0) {
    return ifStatement(tstl.createUnaryExpression(condition, tstl.SyntaxKind.NotOperator), whenFalse, []);
  }
  const [only] = whenFalse;
  let otherwise: tstl.Block | tstl.IfStatement | undefined;
  if (whenFalse.length > 0) otherwise = tstl.createBlock(whenFalse);
  // The printer would leave out what is said before an `elseif`.
  if (whenFalse.length === 1 && only !== undefined && tstl.isIfStatement(only) && !only.leadingComments?.length) {
    otherwise = only;
  }
  return tstl.createIfStatement(condition, tstl.createBlock(whenTrue), otherwise);
}

export function alwaysReturns(statements: tstl.Statement[]): boolean {
  const last = statements.at(-1);
  if (last === undefined) return false;
  if (tstl.isReturnStatement(last)) return true;
  if (tstl.isDoStatement(last)) return alwaysReturns(last.statements);
  if (!tstl.isIfStatement(last) || last.elseBlock === undefined) return false;
  const otherwise = tstl.isIfStatement(last.elseBlock) ? [last.elseBlock] : last.elseBlock.statements;
  return alwaysReturns(last.ifBlock.statements) && alwaysReturns(otherwise);
}

function hasReturn(statement: tstl.Statement): boolean {
  let found = false;
  forEachNode(statement, (node) => {
    if (tstl.isReturnStatement(node)) found = true;
    return !tstl.isFunctionExpression(node);
  });
  return found;
}

export function withComments(statement: tstl.Statement | undefined, comments: tstl.Statement["leadingComments"]): void {
  if (statement === undefined || comments === undefined || comments.length === 0) return;
  statement.leadingComments = [...comments, ...(statement.leadingComments ?? [])];
}
