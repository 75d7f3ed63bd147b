/**
 * Keeps the fields of a table that never leaves its function in locals, which cost neither memory nor look-ups. Only a
 * table that is written out once with all of its fields, and of which nothing but single fields is ever used.
 */
import * as tstl from "typescript-to-lua";
import { withComments } from "./exits.js";
import { type Binding, forEachNode, isNode, type Names } from "./lua-names.js";
import { contains, mostLocals } from "./splice-limits.js";

/** Far below Lua's 200, as for blocks. */
const MOST_LOCALS = 120;

interface Use {
  name: tstl.Identifier;
  parent: tstl.Node;
  /** The function around it, or the file. */
  within: tstl.Node;
}

export function keepFieldsInLocals(file: tstl.File, names: Names): void {
  dropCopies(file, names);
  const uses = usesIn(file, names);
  for (const [binding, each] of uses) {
    const table = binding.reassigned ? undefined : tableOf(each);
    const within = each[0]?.within;
    if (table === undefined || within === undefined) continue;
    const owner = within as tstl.File | tstl.FunctionExpression;
    if (mostLocals(owner) + table.fields.length > MOST_LOCALS) continue;
    const fields = new Map<string, Binding>();
    for (const { key } of table.fields) {
      const field = (key as tstl.StringLiteral).value;
      fields.set(field, { name: `${binding.name}_${field}`, reassigned: true, assignedFromWithin: false });
    }
    const localOf = (field: string) => names.bind(tstl.createIdentifier(`${binding.name}_${field}`), fields.get(field));
    replaceIn(file, (node) => {
      if (!tstl.isTableIndexExpression(node) || !tstl.isIdentifier(node.table)) return undefined;
      return names.of(node.table) === binding ? localOf((node.index as tstl.StringLiteral).value) : undefined;
    });
    for (const { parent } of each) {
      if (tstl.isVariableDeclarationStatement(parent) && parent.right === undefined) {
        parent.left = [...fields.keys()].map(localOf);
      } else if (tstl.isVariableDeclarationStatement(parent) || tstl.isAssignmentStatement(parent)) {
        writeFields(file, parent, table, localOf);
      }
    }
  }
}

/** A line for each field, in the order in which they were evaluated. */
function writeFields(
  file: tstl.File,
  statement: tstl.VariableDeclarationStatement | tstl.AssignmentStatement,
  table: tstl.TableExpression,
  localOf: (field: string) => tstl.Identifier,
): void {
  const lines = table.fields.map(({ key, value }) => {
    const local = localOf((key as tstl.StringLiteral).value);
    return tstl.isAssignmentStatement(statement)
      ? tstl.createAssignmentStatement(local, value)
      : tstl.createVariableDeclarationStatement(local, value);
  });
  withComments(lines[0], statement.leadingComments);
  forEachNode(file, (node) => {
    for (const list of Object.values(node).filter(Array.isArray)) {
      const index = list.indexOf(statement);
      if (index >= 0) list.splice(index, 1, ...lines);
    }
  });
}

/** The one table that the uses are about, if each of them is its declaration, its only assignment, or a field of it. */
function tableOf(uses: Use[]): tstl.TableExpression | undefined {
  const tables: (tstl.Expression | undefined)[] = [];
  const fields = new Set<string>();
  for (const { name, parent, within } of uses) {
    if (within !== uses[0]?.within) return undefined;
    if (tstl.isTableIndexExpression(parent) && parent.table === name && tstl.isStringLiteral(parent.index)) {
      fields.add(parent.index.value);
    } else if (tstl.isVariableDeclarationStatement(parent) || tstl.isAssignmentStatement(parent)) {
      if (parent.left.length !== 1 || parent.left[0] !== name) return undefined;
      if (tstl.isAssignmentStatement(parent) || parent.right !== undefined) tables.push(parent.right?.[0]);
    } else return undefined;
  }
  const [table] = tables;
  if (tables.length !== 1 || table === undefined || !tstl.isTableExpression(table)) return undefined;
  // Written field by field, a table that is made of its own old fields would see new ones.
  if (uses.some(({ name }) => contains(table, name))) return undefined;
  const given = table.fields.map(({ key }) => (key !== undefined && tstl.isStringLiteral(key) ? key.value : ""));
  if (given.length === 0 || new Set(given).size !== given.length) return undefined;
  if (!given.every((field) => /^[a-z_]\w*$/i.test(field))) return undefined;
  return [...fields].every((field) => given.includes(field)) ? table : undefined;
}

function usesIn(file: tstl.File, names: Names): Map<Binding, Use[]> {
  const uses = new Map<Binding, Use[]>();
  function walk(value: unknown, parent: tstl.Node, within: tstl.Node): void {
    if (Array.isArray(value)) {
      for (const item of value) walk(item, parent, within);
    } else if (isNode(value)) {
      const binding = tstl.isIdentifier(value) ? names.of(value) : undefined;
      if (binding !== undefined) {
        uses.set(binding, [...(uses.get(binding) ?? []), { name: value as tstl.Identifier, parent, within }]);
      }
      for (const part of Object.values(value)) walk(part, value, tstl.isFunctionExpression(value) ? value : within);
    }
  }
  walk(file, file, file);
  return uses;
}

/** `local a = b`, where neither ever changes, is `b`. */
function dropCopies(file: tstl.File, names: Names): void {
  forEachNode(file, (node) => {
    for (const list of Object.values(node).filter(Array.isArray)) {
      for (const statement of [...list] as tstl.Statement[]) {
        if (!isNode(statement) || !tstl.isVariableDeclarationStatement(statement)) continue;
        const [name] = statement.left;
        const value = statement.right?.length === 1 && statement.left.length === 1 ? statement.right[0] : undefined;
        if (name === undefined || value === undefined || !tstl.isIdentifier(value)) continue;
        const from = names.of(name);
        const to = names.of(value);
        if (from === undefined || to === undefined || from.reassigned || to.reassigned) continue;
        const index = list.indexOf(statement);
        list.splice(index, 1);
        withComments(list[index], statement.leadingComments);
        forEachNode(file, (each) => {
          if (tstl.isIdentifier(each) && names.of(each) === from) names.bind(each, to);
        });
      }
    }
  });
}

function replaceIn(tree: tstl.Node, replace: (node: tstl.Node) => tstl.Node | undefined): void {
  const renewed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(renewed);
    return (isNode(value) ? replace(value) : undefined) ?? value;
  };
  forEachNode(tree, (node) => {
    for (const [key, part] of Object.entries(node)) {
      if (Array.isArray(part)) part.splice(0, part.length, ...(renewed(part) as unknown[]));
      else if (isNode(part)) Object.assign(node, { [key]: renewed(part) });
    }
  });
}

/** In a block that ends in `target = own`, the target is used at once for what the block calls its own. */
export function withoutLastCopy(statements: tstl.Statement[], target: tstl.Identifier, names: Names): tstl.Statement[] {
  const last = statements.at(-1);
  if (last === undefined || !tstl.isAssignmentStatement(last)) return statements;
  const [value] = last.right;
  const own = value !== undefined && tstl.isIdentifier(value) ? names.of(value) : undefined;
  const wanted = names.of(target);
  if (own === undefined || own.reassigned || wanted === undefined) return statements;
  const isOwn = (name: tstl.Identifier | undefined) => name !== undefined && names.of(name) === own;
  const declaration = statements.find(
    (each) => tstl.isVariableDeclarationStatement(each) && each.left.length === 1 && isOwn(each.left[0]),
  ) as tstl.VariableDeclarationStatement | undefined;
  if (declaration?.right?.length !== 1 || tstl.isFunctionDefinition(declaration)) return statements;
  let uses = 0;
  let makesFunctions = false;
  forEachNode(statements, (node) => {
    if (tstl.isIdentifier(node) && names.of(node) === wanted) uses++;
    if (tstl.isFunctionExpression(node)) makesFunctions = true;
  });
  if (uses !== 1 || makesFunctions) return statements;
  const name = names.bind(tstl.cloneIdentifier(target), wanted);
  const assignment = tstl.createAssignmentStatement(name, declaration.right);
  withComments(assignment, declaration.leadingComments);
  forEachNode(statements, (node) => {
    if (tstl.isIdentifier(node) && isOwn(node)) names.bind(node, wanted);
  });
  return statements.slice(0, -1).map((each) => (each === declaration ? assignment : each));
}
