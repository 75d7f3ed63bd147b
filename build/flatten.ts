/**
 * Turns an entry module and what it imports into one TypeScript text without modules: only what the entry's exports
 * reach, callees first, constants and functions of one expression written out. Flattening before the compiler keeps the
 * types that Lua is emitted by.
 */
import ts from "typescript";
import { BuildError, describeDiagnostic, placeOf } from "./build-error.js";
import { inlining } from "./inline.js";
import { declaredNames, type Module, readModules } from "./modules.js";
import { fromRoot, shown } from "./paths.js";
import { portableProgram } from "./portable-program.js";
import { textOf, type UnitText } from "./unit-text.js";
import { collectUnits, markReachable, rootUnits, type Unit, type Units } from "./units.js";

export interface FlattenOptions {
  /** The entry module, absolute or from the root of the repository. */
  entry: string;
  /** The names to keep, each exported by the entry. All of its exports unless given. */
  exports?: string[];
  /** Folders that modules may lie in, besides `src/core` and `src/scripts`. */
  folders?: string[];
}

/** One top-level declaration of the flat text. */
export interface FlatPart {
  /** Its first line in the flat text, from 0. */
  line: number;
  /** Where it came from. */
  file: string;
  originLine: number;
  /** For the first declaration of a module: comment lines that tell a reader of the Lua where he is. */
  heading: string[];
  /** Only its type is of use: it must leave no Lua. */
  typeOnly: boolean;
}

export interface Flat {
  text: string;
  parts: FlatPart[];
  exports: string[];
}

export function flatten(options: FlattenOptions): Flat {
  const entry = fromRoot(options.entry);
  const folders = ["src/core", "src/engine", "src/scripts", ...(options.folders ?? [])].map(fromRoot);
  const program = portableProgram([entry]);
  const { modules, exports: offered } = readModules(program, entry, folders);
  const errors = ts.getPreEmitDiagnostics(program);
  if (errors.length > 0) throw new BuildError(errors.map(describeDiagnostic));
  const names = options.exports ?? offered;
  for (const name of names) {
    if (!offered.includes(name)) throw new BuildError([`${shown(entry)}: does not export "${name}"`]);
  }
  if (names.length === 0) throw new BuildError([`${shown(entry)}: exports nothing`]);

  const units = collectUnits(modules, program.getTypeChecker());
  markReachable(rootUnits(program, entry, names, units), units);
  refuseClashes(units.all.filter(isKept));
  const texts = textsOf(units);
  return { ...write(modules, texts, units), exports: names };
}

/** What the flat program is made of: what is used, and of functions that can be written out those still called. */
function textsOf(units: Units): Map<Unit, UnitText> {
  const short = inlining(units);
  const texts = new Map<Unit, UnitText>();
  const todo = units.all.filter((unit) => isKept(unit) && short.of(unit) === undefined);
  for (let unit = todo.pop(); unit !== undefined; unit = todo.pop()) {
    if (texts.has(unit)) continue;
    const text = textOf(unit, units, short);
    texts.set(unit, text);
    todo.push(...text.calls);
  }
  return texts;
}

/** A constant that is written out wherever it is used need not be declared. */
function isKept(unit: Unit): boolean {
  if (unit.constant !== undefined) return unit.exported || unit.usedAsType;
  return unit.usedAsValue || unit.usedAsType;
}

function refuseClashes(kept: Unit[]): void {
  const owners = new Map<string, ts.Identifier>();
  const problems: string[] = [];
  for (const unit of kept) {
    for (const name of declaredNames(unit.node)) {
      const other = owners.get(name.text);
      if (other === undefined) owners.set(name.text, name);
      else problems.push(`${placeOf(name)}: "${name.text}" is also declared in ${placeOf(other)}: rename one of them`);
    }
  }
  if (problems.length > 0) throw new BuildError(problems);
}

function write(modules: Module[], texts: Map<Unit, UnitText>, units: Units): { text: string; parts: FlatPart[] } {
  const lines: string[] = [];
  const parts: FlatPart[] = [];
  let heading: string[] = [];
  for (const module of modules) {
    const own = units.all.filter((unit) => unit.module === module);
    heading.push(...headingOf(module, own, texts));
    for (const unit of calleesFirst(own)) {
      const written = texts.get(unit);
      if (written === undefined) continue;
      const emits = leavesLua(unit);
      const file = shown(module.file.fileName);
      const { text, originLine } = written;
      parts.push({ line: lines.length, file, originLine, heading: emits ? heading : [], typeOnly: !emits });
      if (emits) heading = [];
      lines.push(...text.split("\n"));
    }
  }
  // Makes the text a module, so that its names are its own.
  return { text: `${lines.join("\n")}\nexport {};\n`, parts };
}

function leavesLua(unit: Unit): boolean {
  if (unit.constant === undefined ? !unit.usedAsValue : !unit.exported) return false;
  if (ts.isInterfaceDeclaration(unit.node) || ts.isTypeAliasDeclaration(unit.node)) return false;
  return unit.node.modifiers?.some((modifier) => modifier.kind === ts.SyntaxKind.DeclareKeyword) !== true;
}

/** In source order, but nothing before what it uses: Lua sees a local only below its declaration. */
function calleesFirst(units: Unit[]): Unit[] {
  const ordered = new Set<Unit>();
  const entered = new Set<Unit>();
  function place(unit: Unit): void {
    if (entered.has(unit) || !units.includes(unit)) return;
    entered.add(unit);
    for (const needed of unit.needs) place(needed);
    ordered.add(unit);
  }
  for (const unit of units) place(unit);
  return [...ordered];
}

/** Names the module and the constants written out. Nothing for a module that leaves neither. */
function headingOf(module: Module, own: Unit[], texts: Map<Unit, UnitText>): string[] {
  const constants = own
    .filter((unit) => unit.usedAsValue && unit.constant !== undefined && !unit.exported)
    .map((unit) => `  ${declaredNames(unit.node)[0]?.text} = ${JSON.stringify(unit.constant?.value)}`);
  if (constants.length === 0 && !own.some((unit) => texts.has(unit) && leavesLua(unit))) return [];
  return [shown(module.file.fileName), ...constants];
}
