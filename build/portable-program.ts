/** TypeScript programs in which only portable things exist: our own tiny library, and Lua's side of the host. */
import { dirname, resolve } from "node:path";
import ts from "typescript";
import { fromRoot } from "./paths.js";

const library = fromRoot("build/portable-lib.d.ts");
const host = fromRoot("src/core/platform.ts");
const luaHost = fromRoot("src/core/platform-lua.ts");

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

/** The file behind `./x.js`, with `host-lua.ts` in the place of `host.ts`; undefined for anything but a relative path. */
export function resolveImport(specifier: string, importer: string): string | undefined {
  if (!specifier.startsWith("./") && !specifier.startsWith("../")) return undefined;
  const path = resolve(dirname(importer), specifier.replace(/\.js$/, ".ts"));
  return path === host ? luaHost : path;
}

/** A program of these files and what they import. `texts` are files that exist in memory only. */
export function portableProgram(
  files: string[],
  options: ts.CompilerOptions = portableOptions,
  texts: ReadonlyMap<string, string> = new Map(),
): ts.Program {
  const compilerHost = ts.createCompilerHost(options, true);
  const read = compilerHost.getSourceFile.bind(compilerHost);
  compilerHost.getSourceFile = (name, version) => {
    const text = texts.get(name);
    return text === undefined ? read(name, version) : ts.createSourceFile(name, text, version, true);
  };
  const exists = compilerHost.fileExists.bind(compilerHost);
  compilerHost.fileExists = (name) => texts.has(name) || exists(name);
  // The default library is the one that TypeScriptToLua takes for its built-ins, so ours stands in its place.
  compilerHost.getDefaultLibFileName = () => library;
  compilerHost.resolveModuleNameLiterals = (literals, importer) =>
    literals.map((literal) => {
      const path = resolveImport(literal.text, importer);
      if (path === undefined || !compilerHost.fileExists(path)) return { resolvedModule: undefined };
      return { resolvedModule: { resolvedFileName: path, extension: ts.Extension.Ts } };
    });
  return ts.createProgram(files, options, compilerHost);
}
