/** Compiles an entry module and everything it imports to one Lua chunk with TypeScriptToLua. The chunk returns the exports. */
import ts from "typescript";
import * as tstl from "typescript-to-lua";
import { BuildError, describeDiagnostic, placeOf } from "./build-error.js";
import { interpreterVisitors } from "./lua-inlining.js";
import { fromRoot } from "./paths.js";
import { portableOptions, portableProgram, resolveImport } from "./portable-program.js";

export interface BundleOptions {
  /** The entry module, absolute or relative to the root of the repository. */
  entry: string;
  /** "5.1" for Redis, "JIT" for LuaJIT. */
  target: "5.1" | "JIT";
}

/** Modules of LuaJIT and OpenResty that a bundle loads from its host. */
const HOST_MODULES = ["ffi", "bit", "ngx.semaphore", "ngx.ssl"];

const sources = new Set<string>();

/** The files that the bundles were compiled from so far, including those that only declare types. */
export function bundleSources(): ReadonlySet<string> {
  return sources;
}

export function luaBundle({ entry, target }: BundleOptions): string {
  const options: ts.CompilerOptions & tstl.TypeScriptToLuaOptions = {
    ...portableOptions,
    rootDir: fromRoot("."),
    noEmitOnError: true,
    removeComments: true,
    luaTarget: target === "JIT" ? tstl.LuaTarget.LuaJIT : tstl.LuaTarget.Lua51,
    luaBundle: "bundle.lua",
    luaBundleEntry: fromRoot(entry),
    luaLibImport: tstl.LuaLibImportKind.RequireMinimal,
    noImplicitSelf: true,
    noHeader: true,
    noResolvePaths: HOST_MODULES,
  };
  const program = portableProgram([fromRoot(entry)], options as ts.CompilerOptions);
  for (const { fileName } of program.getSourceFiles()) sources.add(fileName);
  const plugin: tstl.Plugin = {
    moduleResolution: resolveImport,
    visitors: target === "JIT" ? {} : interpreterVisitors,
  };
  let code = "";
  const { diagnostics } = new tstl.Transpiler().emit({
    program,
    plugins: [plugin],
    writeFile: (_name, text) => {
      code = text;
    },
  });
  const problems = [...diagnostics.map(describeDiagnostic), ...program.getSourceFiles().flatMap(doubleMinuses)];
  if (problems.length > 0) throw new BuildError(problems);
  return code;
}

/** TypeScriptToLua writes -(-x) as `--x`, which is a comment in Lua. */
function doubleMinuses(file: ts.SourceFile): string[] {
  const problems: string[] = [];
  const isMinus = (node: ts.Node): node is ts.PrefixUnaryExpression =>
    ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.MinusToken;
  function walk(node: ts.Node): void {
    if (isMinus(node) && isMinus(skipParentheses(node.operand))) {
      problems.push(`${placeOf(node)}: a minus may not follow a minus: it would become a comment in Lua`);
    }
    ts.forEachChild(node, walk);
  }
  walk(file);
  return problems;
}

function skipParentheses(node: ts.Expression): ts.Expression {
  return ts.isParenthesizedExpression(node) ? skipParentheses(node.expression) : node;
}

/** Returns the phases that nginx calls. */
export const nginxBundle = () => jitBundle("tollgate for nginx", "src/planes/nginx/main.ts");

/** Defines the global functions that Envoy's dynamic module calls. The rendered options precede it in the same file. */
export const envoyBundle = () => jitBundle("tollgate for Envoy", "src/planes/envoy/module-main.ts");

/** Returns a table of the core's functions. */
export const coreBundle = () => jitBundle("tollgate core", "src/core/portable.ts");

function jitBundle(title: string, entry: string): string {
  return `-- ${title}, generated from ${entry}: change it there\n${luaBundle({ entry, target: "JIT" })}`;
}
