/** Gives functions of Lua's library that a program calls often a local name: two look-ups less at each call. */
import * as tstl from "typescript-to-lua";

/** Below this many calls in the text the local saves nothing: every function that uses it costs a little more to build. */
const OFTEN = 6;
const libraries = new Set(["math", "string", "table"]);

interface LibraryCall {
  call: tstl.CallExpression;
  library: string;
  name: string;
}

/** Changes the calls in `file` and puts the locals before everything else. */
export function localizeLibrary(file: tstl.File): void {
  const calls = new Map<string, LibraryCall[]>();
  const names = new Set<string>();
  forEachNode(file, (node) => {
    if (tstl.isIdentifier(node)) names.add(node.text);
    const found = tstl.isCallExpression(node) ? libraryCall(node) : undefined;
    if (found === undefined) return;
    const local = `${found.library}_${found.name}`;
    calls.set(local, [...(calls.get(local) ?? []), found]);
  });
  const locals: tstl.Statement[] = [];
  for (const [local, uses] of [...calls].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [first] = uses;
    if (first === undefined || uses.length < OFTEN || names.has(local)) continue;
    locals.push(tstl.createVariableDeclarationStatement(tstl.createIdentifier(local), first.call.expression));
    for (const { call } of uses) call.expression = tstl.createIdentifier(local);
  }
  file.statements.unshift(...locals);
}

/** The compiler renames whatever a program calls `math`, `string` or `table`, so these names are Lua's. */
function libraryCall(call: tstl.CallExpression): LibraryCall | undefined {
  const { expression } = call;
  if (!tstl.isTableIndexExpression(expression)) return undefined;
  const { table, index } = expression;
  if (!tstl.isIdentifier(table) || !libraries.has(table.text) || !tstl.isStringLiteral(index)) return undefined;
  return { call, library: table.text, name: index.value };
}

function forEachNode(value: unknown, visit: (node: tstl.Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) forEachNode(item, visit);
  } else if (typeof value === "object" && value !== null && "kind" in value) {
    visit(value as tstl.Node);
    for (const part of Object.values(value)) forEachNode(part, visit);
  }
}
