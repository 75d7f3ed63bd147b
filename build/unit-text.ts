/** The text of a declaration in the flat program: without `export`, constants and short functions written out. */
import ts from "typescript";
import {
  type Argument,
  type Arguments,
  type Inlinable,
  type Inlining,
  maySubstitute,
  meansTheSame,
  type Weight,
} from "./inline.js";
import type { Declaration } from "./modules.js";
import { isTypeText, meantBy, type Unit, type Units } from "./units.js";

export interface UnitText {
  text: string;
  /** The line of the module that the text begins at, from 0. Lines stay lines. */
  originLine: number;
  /** Functions that could be written out, but are called here. */
  calls: Set<Unit>;
}

interface Edit {
  from: number;
  to: number;
  text: string;
}

/** A place in the flat text: where names are looked up, and what stands for the parameters of a function written out. */
interface Place {
  site: ts.Node;
  given: Arguments;
}

export function textOf(unit: Unit, units: Units, { of: inlinableOf, weigh }: Inlining): UnitText {
  const { checker } = units;
  const { node, module } = unit;
  const calls = new Set<Unit>();

  /** What is written in the place of this node; undefined when it stays as it is, except for what is in it. */
  function replacement(part: ts.Node, place: Place | undefined): string | undefined {
    if (ts.isShorthandPropertyAssignment(part)) {
      const text = replacement(part.name, place);
      return text === undefined ? undefined : `${part.name.text}: ${text}`;
    }
    if (ts.isIdentifier(part)) {
      const symbol = meantBy(part, checker);
      const argument = symbol === undefined || !isValue(part) ? undefined : place?.given.get(symbol);
      if (argument !== undefined) return argument.text;
      const used = units.of(part);
      return used === unit ? undefined : used?.constant?.text;
    }
    return ts.isCallExpression(part) ? writtenOut(part, place ?? { site: part, given: new Map() }) : undefined;
  }

  function writtenOut(call: ts.CallExpression, place: Place): string | undefined {
    const callee = ts.isIdentifier(call.expression) ? units.of(call.expression) : undefined;
    const inlinable = callee === undefined ? undefined : inlinableOf(callee);
    if (callee === undefined || inlinable === undefined) return undefined;
    const text = inlined(call, inlinable, place);
    if (text === undefined) calls.add(callee);
    return text;
  }

  function inlined(call: ts.CallExpression, inlinable: Inlinable, place: Place): string | undefined {
    const { parameters, body, isStatement, returnType } = inlinable;
    if (!isPlainCall(call, parameters.length)) return undefined;
    if (isStatement ? !ts.isExpressionStatement(call.parent) : beginsStatement(call)) return undefined;
    if (!meansTheSame(inlinable, place.site, checker)) return undefined;
    const weights = call.arguments.map((argument) => weigh(argument, place.given));
    if (!weights.every((weight) => weight !== undefined) || !maySubstitute(inlinable, weights, checker))
      return undefined;
    const given = new Map<ts.Symbol, Argument>();
    for (const [index, { symbol, type }] of parameters.entries()) {
      const text = argumentText(call.arguments[index] as ts.Expression, type, place);
      given.set(symbol, { ...(weights[index] as Weight), text });
    }
    const text = oneLine(body, { site: place.site, given });
    if (!isStatement) return `(${text}${returnType === undefined ? "" : ` as ${oneLine(returnType, place)}`})`;
    return /^\w/.test(text) ? text : undefined;
  }

  /** Has the parameter's type, by which Lua is emitted, and holds together wherever the parameter may stand. */
  function argumentText(argument: ts.Expression, type: ts.TypeNode, place: Place): string {
    const same = checker.getTypeAtLocation(argument) === checker.getTypeFromTypeNode(type);
    const text = oneLine(argument, place) + (same ? "" : ` as ${oneLine(type, place)}`);
    return /^[a-z_$][\w$.]*$/i.test(text) ? text : `(${text})`;
  }

  /** The text of a node without comments and line ends. */
  function oneLine(part: ts.Node, place: Place): string {
    const text = replacement(part, place);
    if (text !== undefined) return text;
    const file = part.getSourceFile();
    const children = part.getChildren(file).filter((child) => !ts.isJSDoc(child) && child.end > child.getStart(file));
    if (children.length === 0) return part.getText(file);
    let line = "";
    let end = children[0]?.getStart(file) ?? 0;
    for (const child of children) {
      line += (child.getStart(file) > end ? " " : "") + oneLine(child, place);
      end = child.end;
    }
    return line;
  }

  const edits: Edit[] = [];
  for (const modifier of node.modifiers ?? []) {
    if (modifier.kind === ts.SyntaxKind.ExportKeyword) {
      edits.push({ from: modifier.getStart(module.file), to: modifier.end + 1, text: "" });
    }
  }
  function collect(part: ts.Node): void {
    if (isTypeText(part)) return;
    const text = replacement(part, undefined);
    if (text === undefined) {
      ts.forEachChild(part, collect);
      return;
    }
    const lines = part.getText(module.file).split("\n").length - 1;
    edits.push({ from: part.getStart(module.file), to: part.end, text: withLines(text, lines) });
  }
  collect(node);

  const from = startWithDoc(node, module.file);
  const originLine = module.file.getLineAndCharacterOfPosition(from).line;
  return { text: edited(module.file.text, from, node.end, edits), originLine, calls };
}

/** As many line ends as the call had, where they cannot end the statement. */
function withLines(text: string, lines: number): string {
  if (lines === 0) return text;
  const inner = text.endsWith(")") ? text.slice(0, -1) : text;
  return inner + "\n".repeat(lines) + text.slice(inner.length);
}

function edited(source: string, from: number, to: number, edits: Edit[]): string {
  let text = "";
  let at = from;
  for (const edit of edits.toSorted((a, b) => a.from - b.from)) {
    text += source.slice(at, edit.from) + edit.text;
    at = edit.to;
  }
  return text + source.slice(at, to);
}

function isPlainCall(call: ts.CallExpression, count: number): boolean {
  if (call.questionDotToken !== undefined || call.typeArguments !== undefined) return false;
  if (ts.isSpreadElement(call.parent) || call.arguments.some(ts.isSpreadElement)) return false;
  return call.arguments.length === count;
}

/** There a parenthesis would go on with the line above. */
function beginsStatement(call: ts.CallExpression): boolean {
  const file = call.getSourceFile();
  let node: ts.Node = call;
  while (node.parent.getStart(file) === call.getStart(file)) {
    node = node.parent;
    if (ts.isExpressionStatement(node)) return true;
  }
  return false;
}

/** False for the name of a member or of a property, which only looks like one. */
function isValue(name: ts.Identifier): boolean {
  const { parent } = name;
  if (ts.isPropertyAccessExpression(parent)) return parent.name !== name;
  return !ts.isPropertyAssignment(parent) || parent.name !== name;
}

/** The last doc comment belongs to the declaration unless a blank line parts them: then it is the file's. */
function startWithDoc(node: Declaration, file: ts.SourceFile): number {
  const start = node.getStart(file);
  const doc = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).at(-1);
  if (doc === undefined || file.text.slice(doc.end, start).split("\n").length > 2) return start;
  return doc.pos;
}
