/** Compiles a program to Lua without modules: plain local functions, and an ending of the caller's choice. */
import ts from "typescript";
import * as tstl from "typescript-to-lua";
import { BuildError } from "./build-error.js";
import { type Flat, type FlatPart, type FlattenOptions, flatten } from "./flatten.js";
import { type Headings, improve } from "./improve.js";
import { fromRoot } from "./paths.js";
import { portableOptions, portableProgram } from "./portable-program.js";

export interface LuaOptions extends FlattenOptions {
  /** "5.1" for Redis, "JIT" for LuaJIT. */
  target: "5.1" | "JIT";
  /** The last lines of the Lua text, such as `return grant(redis, KEYS, ARGV)`; a table of the exports unless given. */
  ending?: string | ((exports: string[]) => string);
  /** Every call runs the whole text, as in Redis, so that each function in it costs: as few as possible are left. */
  runsWhole?: boolean;
  /** Lets the program use TypeScriptToLua's helper functions, which are built anew on each run of a Redis script. */
  allowHelpers?: boolean;
}

export interface LuaProgram {
  code: string;
  exports: string[];
  /** The TypeScript it was compiled from, for a look at what went wrong. */
  flat: string;
}

export function flattenToLua(options: LuaOptions): LuaProgram {
  const flat = flatten(options);
  const { ending = tableOf } = options;
  const last = typeof ending === "string" ? ending : ending(flat.exports);
  const call = options.runsWhole === true ? callOf(last) : undefined;
  const code = compile(flat, options, call).replace(/^end\n(?=\S)/gm, "end\n\n");
  return { code: `${code}\n${call === undefined ? `${last}\n` : ""}`, exports: flat.exports, flat: flat.text };
}

/** An ending such as `return grant(redis, KEYS, ARGV)` as a part of the program. */
function callOf(ending: string): tstl.Statement | undefined {
  const [, name, list = ""] = /^return (\w+)\(([\w, ]*)\)$/.exec(ending) ?? [];
  if (name === undefined) return undefined;
  const args = list.split(/,\s*/).filter((arg) => arg !== "");
  const identifiers = args.map((arg) => tstl.createIdentifier(arg));
  return tstl.createReturnStatement([tstl.createCallExpression(tstl.createIdentifier(name), identifiers)]);
}

function tableOf(names: string[]): string {
  return `return {\n${names.map((name) => `    ${name} = ${name},\n`).join("")}}`;
}

function compile(flat: Flat, options: LuaOptions, call: tstl.Statement | undefined): string {
  const path = fromRoot("flat.ts");
  const compilerOptions: ts.CompilerOptions & tstl.TypeScriptToLuaOptions = {
    ...portableOptions,
    luaTarget: options.target === "JIT" ? tstl.LuaTarget.LuaJIT : tstl.LuaTarget.Lua51,
    luaLibImport: tstl.LuaLibImportKind.Inline,
    noImplicitSelf: true,
    noHeader: true,
  };
  const program = portableProgram([path], compilerOptions as ts.CompilerOptions, new Map([[path, flat.text]]));
  const helpers = new Set<string>();
  let code = "";
  const { diagnostics } = new tstl.Transpiler().emit({
    program,
    plugins: [flatPlugin(flat, helpers, options.runsWhole === true, call)],
    writeFile: (name, text) => {
      if (name.endsWith(".lua")) code = text;
    },
  });
  const problems = [...ts.getPreEmitDiagnostics(program), ...diagnostics].map((each) => describe(each, flat));
  if (helpers.size > 0 && options.allowHelpers !== true) {
    problems.push(
      `${options.entry}: needs TypeScriptToLua's helpers ${[...helpers].sort().join(", ")}, ` +
        "which every run of a script would build anew: write it in plain operations",
    );
  }
  // The compiler knows no way to say "no module", so this says that what is left of modules is gone.
  if (/____exports|\brequire\(/.test(code)) problems.push(`${options.entry}: the Lua still speaks of modules`);
  if (problems.length > 0) throw new BuildError(problems);
  return code;
}

/** Leaves out what the flat text has for its types only, heads each module, and drops the table of exports. */
function flatPlugin(
  flat: Flat,
  helpers: Set<string>,
  runsWhole: boolean,
  call: tstl.Statement | undefined,
): tstl.Plugin {
  const headings: Headings = new Map();
  function transform(node: ts.Statement, context: tstl.TransformationContext): tstl.Statement[] {
    const part = ts.isSourceFile(node.parent) ? partAt(flat, lineOf(node)) : undefined;
    if (part?.typeOnly === true) return [];
    const statements = context.superTransformStatements(node);
    const first = statements[0];
    if (part !== undefined && first !== undefined && part.heading.length > 0) {
      headings.set(
        first,
        part.heading.map((line) => ` ${line}`),
      );
    }
    return statements;
  }
  return {
    visitors: {
      [ts.SyntaxKind.FunctionDeclaration]: transform,
      [ts.SyntaxKind.VariableStatement]: transform,
      [ts.SyntaxKind.PrefixUnaryExpression]: (node, context) => apartFromMinus(context.superTransformExpression(node)),
      [ts.SyntaxKind.SourceFile]: (node, context) => {
        const file = context.superTransformNode(node)[0] as tstl.File;
        file.statements = file.statements.slice(1, -1);
        for (const feature of file.luaLibFeatures) helpers.add(feature);
        if (call !== undefined) file.statements.push(call);
        const kept = new Set(call === undefined ? flat.exports : []);
        improve(file, { headings, kept, runsWhole });
        return file;
      },
    },
  };
}

/** The printer writes minus minus x as `--x`, which is a comment in Lua; parentheses keep the two apart. */
function apartFromMinus(expression: tstl.Expression): tstl.Expression {
  if (!tstl.isUnaryExpression(expression) || expression.operator !== tstl.SyntaxKind.NegationOperator)
    return expression;
  const { operand } = expression;
  const negative =
    (tstl.isUnaryExpression(operand) && operand.operator === tstl.SyntaxKind.NegationOperator) ||
    (tstl.isNumericLiteral(operand) && operand.value < 0);
  if (negative) expression.operand = tstl.createParenthesizedExpression(operand);
  return expression;
}

function lineOf(node: ts.Node): number {
  const file = node.getSourceFile();
  return file.getLineAndCharacterOfPosition(node.getStart(file)).line;
}

/** The declaration that a line of the flat text belongs to. */
function partAt(flat: Flat, line: number): FlatPart | undefined {
  return flat.parts.findLast((part) => part.line <= line);
}

function describe(diagnostic: ts.Diagnostic, flat: Flat): string {
  const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n  ");
  const { file, start } = diagnostic;
  if (file === undefined || start === undefined) return text;
  const line = file.getLineAndCharacterOfPosition(start).line;
  const part = partAt(flat, line);
  if (part === undefined) return text;
  return `${part.file}:${part.originLine + line - part.line + 1}: ${text}`;
}
