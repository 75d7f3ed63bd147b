/** What every name in a Lua tree stands for, kept while statements move, and written back without mix-ups. */
import * as tstl from "typescript-to-lua";

/** One local variable, parameter or local function. */
export interface Binding {
  name: string;
  /** It is assigned after its declaration. */
  reassigned: boolean;
  /** It is assigned by a function within the one that declares it. */
  assignedFromWithin: boolean;
}

export interface Names {
  /** Undefined for a global. */
  of(name: tstl.Identifier): Binding | undefined;
  bind(name: tstl.Identifier, binding: Binding | undefined): tstl.Identifier;
  /** Renames locals that would hide something else that is meant in their scope. */
  writeBack(): void;
}

interface Scope {
  names: Map<string, Binding>;
  depth: number;
  outer: Scope | undefined;
}

interface Visitor {
  declare(name: tstl.Identifier, scope: Scope): void;
  refer(name: tstl.Identifier, scope: Scope, isWrite: boolean): void;
}

/** The file's nodes must be in one place each: see copyOf. */
export function namesOf(file: tstl.File): Names {
  const bindings = new Map<tstl.Identifier, Binding>();
  const depths = new Map<Binding, number>();
  walkScopes(file, {
    declare: (name, scope) => {
      const binding: Binding = { name: name.text, reassigned: false, assignedFromWithin: false };
      bindings.set(name, binding);
      depths.set(binding, scope.depth);
      scope.names.set(name.text, binding);
    },
    refer: (name, scope, isWrite) => {
      const binding = lookUp(name.text, scope);
      if (binding === undefined) return;
      bindings.set(name, binding);
      if (!isWrite) return;
      binding.reassigned = true;
      if (depths.get(binding) !== scope.depth) binding.assignedFromWithin = true;
    },
  });

  function bind(name: tstl.Identifier, binding: Binding | undefined): tstl.Identifier {
    if (binding !== undefined) bindings.set(name, binding);
    return name;
  }

  function writeBack(): void {
    const taken = new Set<string>();
    forEachNode(file, (node) => {
      if (tstl.isIdentifier(node)) taken.add(node.text);
    });
    while (renameOne(file, bindings, taken));
    forEachNode(file, (node) => {
      if (tstl.isIdentifier(node)) node.text = bindings.get(node)?.name ?? node.text;
    });
  }

  return { of: (name) => bindings.get(name), bind, writeBack };
}

/** Finds a local that hides what a name in its scope means, and gives it a name of its own. */
function renameOne(file: tstl.File, bindings: Map<tstl.Identifier, Binding>, taken: Set<string>): boolean {
  let hiding: Binding | undefined;
  walkScopes(file, {
    declare: (name, scope) => {
      const binding = bindings.get(name);
      if (binding !== undefined) scope.names.set(binding.name, binding);
    },
    refer: (name, scope) => {
      const meant = bindings.get(name);
      const found = lookUp(meant?.name ?? name.text, scope);
      if (found === meant || hiding !== undefined) return;
      if (found === undefined) throw new Error(`"${name.text}" was moved out of its scope`);
      hiding = found;
    },
  });
  if (hiding === undefined) return false;
  const base = hiding.name.replace(/_\d+$/, "");
  let number = 2;
  while (taken.has(`${base}_${number}`)) number++;
  hiding.name = `${base}_${number}`;
  taken.add(hiding.name);
  return true;
}

function lookUp(name: string, scope: Scope): Binding | undefined {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
    const binding = at.names.get(name);
    if (binding !== undefined) return binding;
  }
  return undefined;
}

function walkScopes(file: tstl.File, visitor: Visitor): void {
  const within = (outer: Scope, deeper = 0): Scope => ({ names: new Map(), depth: outer.depth + deeper, outer });

  function statements(list: tstl.Statement[], scope: Scope): void {
    for (const each of list) statement(each, scope);
  }

  function statement(node: tstl.Statement, scope: Scope): void {
    if (tstl.isVariableDeclarationStatement(node)) {
      // The printer writes `local function` for every function, so its name is known in it.
      const isFunction = tstl.isFunctionDefinition(node);
      if (!isFunction) expressions(node.right ?? [], scope);
      for (const name of node.left) visitor.declare(name, scope);
      if (isFunction) expressions(node.right, scope);
    } else if (tstl.isAssignmentStatement(node)) {
      expressions(node.right, scope);
      for (const target of node.left) {
        if (tstl.isIdentifier(target)) visitor.refer(target, scope, true);
        else expression(target, scope);
      }
    } else if (tstl.isIfStatement(node)) {
      expression(node.condition, scope);
      statements(node.ifBlock.statements, within(scope));
      if (node.elseBlock === undefined) return;
      if (tstl.isIfStatement(node.elseBlock)) statement(node.elseBlock, scope);
      else statements(node.elseBlock.statements, within(scope));
    } else if (tstl.isWhileStatement(node)) {
      expression(node.condition, scope);
      statements(node.body.statements, within(scope));
    } else if (tstl.isRepeatStatement(node)) {
      const inner = within(scope);
      statements(node.body.statements, inner);
      expression(node.condition, inner);
    } else if (tstl.isForStatement(node)) {
      const { controlVariableInitializer, limitExpression, stepExpression } = node;
      expressions([controlVariableInitializer, limitExpression], scope);
      if (stepExpression !== undefined) expression(stepExpression, scope);
      loop([node.controlVariable], node.body, scope);
    } else if (tstl.isForInStatement(node)) {
      expressions(node.expressions, scope);
      loop(node.names, node.body, scope);
    } else if (tstl.isDoStatement(node)) {
      statements(node.statements, within(scope));
    } else if (tstl.isReturnStatement(node)) {
      expressions(node.expressions, scope);
    } else if (tstl.isExpressionStatement(node)) {
      expression(node.expression, scope);
    }
  }

  function loop(names: tstl.Identifier[], body: tstl.Block, scope: Scope): void {
    const inner = within(scope);
    for (const name of names) visitor.declare(name, inner);
    statements(body.statements, inner);
  }

  function expressions(list: tstl.Expression[], scope: Scope): void {
    for (const each of list) expression(each, scope);
  }

  function expression(node: tstl.Expression, scope: Scope): void {
    if (tstl.isIdentifier(node)) {
      visitor.refer(node, scope, false);
    } else if (tstl.isFunctionExpression(node)) {
      const inner = within(scope, 1);
      for (const name of node.params ?? []) visitor.declare(name, inner);
      statements(node.body.statements, inner);
    } else {
      for (const [key, part] of Object.entries(node)) {
        // The name in `object:name()` is not a variable.
        if (tstl.isMethodCallExpression(node) && key === "name") continue;
        for (const item of Array.isArray(part) ? part : [part]) if (isNode(item)) expression(item as never, scope);
      }
    }
  }

  statements(file.statements, { names: new Map(), depth: 0, outer: undefined });
}

/** A copy in which no node is in two places. Where `replace` answers, its answer stands for the name. */
export function copyOf<T extends tstl.Node>(
  node: T,
  replace: (name: tstl.Identifier, parent: tstl.Node) => tstl.Expression | undefined,
): T {
  function copy(value: unknown, parent: tstl.Node): unknown {
    if (Array.isArray(value)) return value.map((item) => copy(item, parent));
    if (!isNode(value)) return value;
    const replaced = tstl.isIdentifier(value) ? replace(value, parent) : undefined;
    if (replaced !== undefined) return replaced;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, copy(part, value)]));
  }
  return copy(node, node) as T;
}

export function isNode(value: unknown): value is tstl.Node {
  return typeof value === "object" && value !== null && "kind" in value;
}

/** Every node in a tree; `visit` may answer false to leave out what is in it. */
export function forEachNode(value: unknown, visit: (node: tstl.Node) => unknown): void {
  if (Array.isArray(value)) {
    for (const item of value) forEachNode(item, visit);
  } else if (isNode(value) && visit(value) !== false) {
    for (const part of Object.values(value)) forEachNode(part, visit);
  }
}
