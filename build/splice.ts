/**
 * Writes the body of a function in the place of its call, where that changes nothing and the function, called from one
 * place or a small one called from two, can then go. Redis builds every function of a script anew on each run, and
 * calling it costs as much again; a block costs nothing.
 */
import * as tstl from "typescript-to-lua";
import { alwaysReturns, type Finish, ifStatement, settle, withComments } from "./exits.js";
import { copyOf, forEachNode, type Names } from "./lua-names.js";
import { withoutLastCopy } from "./plain-locals.js";
import { argumentsFor, hasRoom } from "./splice-limits.js";

type LocalFunction = tstl.VariableDeclarationStatement & { right: [tstl.FunctionExpression] };

/** A function of this many parts is short enough to be written twice. */
const SMALL = 100;

/** A statement that is a call and what is done with its answer. */
interface Site {
  list: tstl.Statement[];
  statement: tstl.Statement;
  call: tstl.CallExpression;
}

/** Splices until nothing is left to splice. `kept` must stay as they are, for text that speaks of them. */
export function spliceCalls(file: tstl.File, names: Names, kept: ReadonlySet<string>): void {
  while (
    file.statements.some((each) => {
      if (!isLocalFunction(each) || kept.has(each.left[0]?.text ?? "")) return false;
      return spliceFunction(file, names, each);
    })
  );
}

export function isLocalFunction(statement: tstl.Statement): statement is LocalFunction {
  return tstl.isVariableDeclarationStatement(statement) && tstl.isFunctionDefinition(statement);
}

function spliceFunction(file: tstl.File, names: Names, declaration: LocalFunction): boolean {
  const binding = names.of(declaration.left[0] as tstl.Identifier);
  if (binding === undefined) return false;
  const [definition] = declaration.right;
  const uses = countNodes(file, (node) => tstl.isIdentifier(node) && names.of(node) === binding) - 1;
  if (uses < 1 || uses > (countNodes(definition) <= SMALL ? 2 : 1)) return false;
  const sites = sitesOf(file, declaration, (callee) => names.of(callee) === binding);
  if (sites.length !== uses) return false;
  if (!sites.every(({ statement }) => hasRoom(file, statement, definition, names))) return false;
  const blocks = sites.map((site) => blockFor(site, declaration, names, site.list === file.statements));
  if (!blocks.every((block) => block !== undefined)) return false;
  for (const [index, { list, statement }] of sites.entries()) {
    list.splice(list.indexOf(statement), 1, ...(blocks[index] ?? []));
  }
  file.statements.splice(file.statements.indexOf(declaration), 1);
  return true;
}

function countNodes(tree: tstl.Node, isCounted: (node: tstl.Node) => boolean = () => true): number {
  let count = 0;
  forEachNode(tree, (node) => {
    if (isCounted(node)) count++;
  });
  return count;
}

/** The statements that call the function and do nothing else. None in the function itself. */
function sitesOf(file: tstl.File, declaration: tstl.Statement, isCallee: (name: tstl.Identifier) => boolean): Site[] {
  const sites: Site[] = [];
  forEachNode(file, (node) => {
    if (node === declaration) return false;
    for (const list of Object.values(node).filter(Array.isArray)) {
      for (const statement of list as tstl.Statement[]) {
        const call = lastCall(statement);
        if (call === undefined || !tstl.isIdentifier(call.expression) || !isCallee(call.expression)) continue;
        sites.push({ list, statement, call });
      }
    }
    return true;
  });
  return sites;
}

/** The call that gives a statement its value: `x = f()`, or `x = condition and 1 or f()`. */
function lastCall(statement: tstl.Statement): tstl.CallExpression | undefined {
  const value = answerOf(statement);
  const call = value === undefined ? undefined : (choiceOf(value)?.otherwise ?? value);
  return call !== undefined && tstl.isCallExpression(call) ? call : undefined;
}

function answerOf(statement: tstl.Statement): tstl.Expression | undefined {
  if (tstl.isExpressionStatement(statement)) return statement.expression;
  if (tstl.isReturnStatement(statement)) return only(statement.expressions);
  if (tstl.isVariableDeclarationStatement(statement)) {
    return statement.left.length === 1 ? only(statement.right ?? []) : undefined;
  }
  if (!tstl.isAssignmentStatement(statement)) return undefined;
  return isSteady(only(statement.left)) ? only(statement.right) : undefined;
}

function only<T>(list: T[]): T | undefined {
  return list.length === 1 ? list[0] : undefined;
}

/** Means the same place before and after the call, which can change neither the caller's locals nor a sum of them. */
function isSteady(target: tstl.Expression | undefined): boolean {
  if (target === undefined) return false;
  if (tstl.isIdentifier(target)) return true;
  if (!tstl.isTableIndexExpression(target) || !tstl.isIdentifier(target.table)) return false;
  const isSum = (node: tstl.Expression): boolean =>
    tstl.isIdentifier(node) ||
    tstl.isLiteral(node) ||
    (tstl.isBinaryExpression(node) && isSum(node.left) && isSum(node.right));
  return isSum(target.index);
}

/** `condition and value or otherwise`, where the value is true and so means "if … then … else". */
function choiceOf(
  node: tstl.Expression,
): { condition: tstl.Expression; value: tstl.Expression; otherwise: tstl.Expression } | undefined {
  if (!tstl.isBinaryExpression(node) || node.operator !== tstl.SyntaxKind.OrOperator) return undefined;
  const { left, right } = node;
  if (!tstl.isBinaryExpression(left) || left.operator !== tstl.SyntaxKind.AndOperator) return undefined;
  if (!tstl.isNumericLiteral(left.right) && !tstl.isStringLiteral(left.right)) return undefined;
  return { condition: left.left, value: left.right, otherwise: right };
}

function blockFor(site: Site, declaration: LocalFunction, names: Names, isTop: boolean): tstl.Statement[] | undefined {
  const { statement, call } = site;
  const [definition] = declaration.right;
  const choice = choiceOf(answerOf(statement) as tstl.Expression);
  const given = argumentsFor(definition, call.params, names);
  if (given === undefined) return undefined;
  const body = copyOf(definition.body, given.replace).statements;
  const finish = finishFor(statement, names);
  let inner: tstl.Statement[];
  if (tstl.isReturnStatement(statement)) {
    if (!alwaysReturns(body)) return undefined;
    inner = [...given.locals, ...body];
  } else {
    const settled = settle(body, finish);
    if (settled === undefined || (settled.falls && !tstl.isExpressionStatement(statement))) return undefined;
    inner = [...given.locals, ...settled.statements];
  }
  const [target] = tstl.isVariableDeclarationStatement(statement) ? statement.left : [];
  if (target !== undefined) inner = withoutLastCopy(inner, target, names);
  const needsBlock = !(isTop && tstl.isReturnStatement(statement)) && inner.some(tstl.isVariableDeclarationStatement);
  const block: tstl.Statement[] = needsBlock ? [tstl.createDoStatement(inner)] : inner;
  const comments = [` ${declaration.left[0]?.text}`, ...(declaration.leadingComments ?? [])];
  withComments(block[0], comments);
  if (choice !== undefined) {
    const chosen = finish([choice.value]);
    if (chosen === undefined) return undefined;
    block.splice(0, block.length, ifStatement(choice.condition, chosen, [...block]));
  }
  if (tstl.isVariableDeclarationStatement(statement)) {
    block.unshift(tstl.createVariableDeclarationStatement(statement.left));
  }
  withComments(block[0], statement.leadingComments);
  return block;
}

/** What the caller does with the answer, for each way out of the body. */
function finishFor(statement: tstl.Statement, names: Names): Finish {
  const again = <T extends tstl.Node>(node: T): T =>
    copyOf(node, (name) => names.bind(tstl.cloneIdentifier(name), names.of(name)));
  if (tstl.isReturnStatement(statement)) return (returned) => [tstl.createReturnStatement(returned)];
  if (tstl.isExpressionStatement(statement)) {
    return ([value]) => {
      if (value === undefined || tstl.isIdentifier(value) || tstl.isLiteral(value)) return [];
      return tstl.isCallExpression(value) ? [tstl.createExpressionStatement(value)] : undefined;
    };
  }
  const [target] = (statement as tstl.AssignmentStatement).left;
  return (returned) => {
    if (returned.length !== 1 || target === undefined) return undefined;
    return [tstl.createAssignmentStatement(again(target), returned)];
  };
}
