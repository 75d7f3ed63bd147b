/** TypeScript programs for portable code: they use our own small standard library and the Lua platform. */
import { dirname, resolve } from "node:path";
import ts from "typescript";
import { fromRoot } from "./paths.js";

const library = fromRoot("build/portable-lib.d.ts");
const platform = fromRoot("src/core/platform.ts");
const luaPlatform = fromRoot("src/core/platform-lua.ts");

export const portableOptions: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noFallthroughCasesInSwitch: true,
  types: [],
};

/** The file that `./x.js` names, with platform-lua.ts instead of platform.ts; undefined unless the path is relative. */
export function resolveImport(specifier: string, importer: string): string | undefined {
  if (!specifier.startsWith("./") && !specifier.startsWith("../")) return undefined;
  const path = resolve(dirname(importer), specifier.replace(/\.js$/, ".ts"));
  return path === platform ? luaPlatform : path;
}

/** A program of these files and what they import. */
export function portableProgram(files: string[], options: ts.CompilerOptions = portableOptions): ts.Program {
  const compilerHost = ts.createCompilerHost(options, true);
  // TypeScriptToLua takes its built-ins from the default library, so ours must be the default.
  compilerHost.getDefaultLibFileName = () => library;
  compilerHost.resolveModuleNameLiterals = (literals, importer) =>
    literals.map((literal) => {
      const path = resolveImport(literal.text, importer);
      if (path === undefined || !compilerHost.fileExists(path)) return { resolvedModule: undefined };
      return { resolvedModule: { resolvedFileName: path, extension: ts.Extension.Ts } };
    });
  return ts.createProgram(files, options, compilerHost);
}
