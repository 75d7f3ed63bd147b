/** What stands for the parameters of a function whose body is written at its call, and whether Lua has room for it. */
import * as tstl from "typescript-to-lua";
import { type Binding, forEachNode, type Names } from "./lua-names.js";

/** Lua 5.1 allows 200 locals and 60 upvalues in a function; values in between need room as well. */
const MOST_LOCALS = 120;
const MOST_UPVALUES = 50;

export interface Given {
  /** Declares the parameters that need a local of their own. */
  locals: tstl.Statement[];
  /** For each name of the body, what is written in the copy of it. */
  replace(name: tstl.Identifier, parent: tstl.Node): tstl.Expression;
}

/** Undefined when the call does not give one value for each parameter. */
export function argumentsFor(
  definition: tstl.FunctionExpression,
  given: tstl.Expression[],
  names: Names,
): Given | undefined {
  const parameters = definition.params ?? [];
  if (definition.dots !== undefined || parameters.length !== given.length) return undefined;
  if (given.some((each) => tstl.isDotsLiteral(each))) return undefined;
  const substitutes = new Map<Binding, tstl.Expression>();
  // Another copy of the same body has locals of its own.
  const fresh = new Map([...ownBindings(definition, names)].map((each) => [each, { ...each }]));
  const renewed = (name: tstl.Identifier): tstl.Identifier => {
    const binding = names.of(name);
    return names.bind(tstl.cloneIdentifier(name), binding && (fresh.get(binding) ?? binding));
  };
  const own: tstl.Identifier[] = [];
  const values: tstl.Expression[] = [];
  for (const [index, parameter] of parameters.entries()) {
    const binding = names.of(parameter);
    const value = given[index];
    if (binding === undefined || value === undefined) return undefined;
    if (mayStandFor(binding, value, definition, names)) {
      substitutes.set(binding, value);
    } else {
      own.push(renewed(parameter));
      values.push(value);
    }
  }

  function replace(name: tstl.Identifier, parent: tstl.Node): tstl.Expression {
    const binding = names.of(name);
    const value = binding === undefined ? undefined : substitutes.get(binding);
    if (value === undefined) return renewed(name);
    if (tstl.isIdentifier(value)) return names.bind(tstl.cloneIdentifier(value), names.of(value));
    const literal = tstl.cloneNode(value);
    // Minus minus would begin a comment.
    return tstl.isUnaryExpression(parent) && isNegative(literal)
      ? tstl.createParenthesizedExpression(literal)
      : literal;
  }

  const locals = own.map((name, index) => tstl.createVariableDeclarationStatement(name, values[index]));
  return { locals, replace };
}

/** True when the argument means, wherever the body uses the parameter, what it meant at the call. */
function mayStandFor(parameter: Binding, value: tstl.Expression, body: tstl.FunctionExpression, names: Names): boolean {
  if (parameter.reassigned) return false;
  if (tstl.isNumericLiteral(value) || tstl.isBooleanLiteral(value)) return !isIndexed(parameter, body, names);
  if (tstl.isStringLiteral(value) || tstl.isNilLiteral(value)) return !isIndexed(parameter, body, names);
  const binding = tstl.isIdentifier(value) ? names.of(value) : undefined;
  if (binding === undefined) return false;
  // The body cannot name the caller's locals. But a function that it calls could assign one, and one that it makes
  // could outlive what the variable holds now.
  return !binding.reassigned || (!binding.assignedFromWithin && !makesFunctions(body));
}

/** Lua does not read `"text".field`, nor `"text"()`. */
function isIndexed(parameter: Binding, body: tstl.FunctionExpression, names: Names): boolean {
  const means = (node: tstl.Expression) => tstl.isIdentifier(node) && names.of(node) === parameter;
  let found = false;
  forEachNode(body, (node) => {
    if (tstl.isTableIndexExpression(node) && means(node.table)) found = true;
    if (tstl.isMethodCallExpression(node) && means(node.prefixExpression)) found = true;
    if (tstl.isCallExpression(node) && means(node.expression)) found = true;
  });
  return found;
}

function makesFunctions(definition: tstl.FunctionExpression): boolean {
  let found = false;
  forEachNode(definition.body, (node) => {
    if (tstl.isFunctionExpression(node)) found = true;
  });
  return found;
}

function isNegative(node: tstl.Expression): boolean {
  return tstl.isNumericLiteral(node) && (node.value < 0 || Object.is(node.value, -0));
}

/** True when the function around the call, with all of the body's locals in it, stays far below Lua's limits. */
export function hasRoom(
  file: tstl.File,
  site: tstl.Statement,
  definition: tstl.FunctionExpression,
  names: Names,
): boolean {
  const around = functionsAround(file, site);
  const caller = around.at(-1) ?? file;
  const locals = mostLocals(caller) + mostLocals(definition);
  if (locals > MOST_LOCALS) return false;
  const more = upvaluesOf(definition, names);
  return around.every((each) => new Set([...upvaluesOf(each, names), ...more]).size <= MOST_UPVALUES);
}

function functionsAround(file: tstl.File, site: tstl.Statement): tstl.FunctionExpression[] {
  const around: tstl.FunctionExpression[] = [];
  forEachNode(file, (node) => {
    if (tstl.isFunctionExpression(node) && contains(node, site)) around.push(node);
  });
  return around;
}

export function contains(node: tstl.Node, part: tstl.Node): boolean {
  let found = false;
  forEachNode(node, (each) => {
    if (each === part) found = true;
    return !found;
  });
  return found;
}

/** How many locals the function has at most at one time, counted a little too high. */
export function mostLocals(node: tstl.FunctionExpression | tstl.File): number {
  function inList(list: tstl.Statement[]): number {
    let open = 0;
    let most = 0;
    for (const statement of list) {
      if (tstl.isVariableDeclarationStatement(statement)) open += statement.left.length;
      most = Math.max(most, open + inStatement(statement));
    }
    return most;
  }
  function inStatement(statement: tstl.Statement): number {
    if (tstl.isDoStatement(statement)) return inList(statement.statements);
    if (tstl.isIfStatement(statement)) {
      const { ifBlock, elseBlock } = statement;
      const otherwise =
        elseBlock === undefined ? [] : tstl.isIfStatement(elseBlock) ? [elseBlock] : elseBlock.statements;
      return Math.max(inList(ifBlock.statements), inList(otherwise));
    }
    // A loop has three locals without a name, and one or two with a name.
    return tstl.isIterationStatement(statement) ? 5 + inList(statement.body.statements) : 0;
  }
  if (tstl.isFile(node)) return inList(node.statements);
  return (node.params?.length ?? 0) + inList(node.body.statements);
}

function ownBindings(definition: tstl.FunctionExpression, names: Names): Set<Binding> {
  const own = new Set<Binding>();
  const declare = (list: tstl.Identifier[]) => {
    for (const name of list) {
      const binding = names.of(name);
      if (binding !== undefined) own.add(binding);
    }
  };
  forEachNode(definition, (node) => {
    if (tstl.isFunctionExpression(node)) declare(node.params ?? []);
    if (tstl.isVariableDeclarationStatement(node)) declare(node.left);
    if (tstl.isForStatement(node)) declare([node.controlVariable]);
    if (tstl.isForInStatement(node)) declare(node.names);
  });
  return own;
}

function upvaluesOf(definition: tstl.FunctionExpression, names: Names): Set<Binding> {
  const own = ownBindings(definition, names);
  const used = new Set<Binding>();
  forEachNode(definition, (node) => {
    const binding = tstl.isIdentifier(node) ? names.of(node) : undefined;
    if (binding !== undefined && !own.has(binding)) used.add(binding);
  });
  return used;
}
