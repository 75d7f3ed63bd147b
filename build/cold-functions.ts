/** Moves a function that only one branch needs into that branch, so that runs that do not take it do not build it. */
import * as tstl from "typescript-to-lua";
import { type Binding, isNode, type Names } from "./lua-names.js";
import { isLocalFunction } from "./splice.js";

/** A list of statements on the way to a name, and the place in it that leads on. */
interface Step {
  list: tstl.Statement[];
  index: number;
  /** In a branch of an `if`. */
  conditional: boolean;
}

export function moveColdFunctions(file: tstl.File, names: Names, kept: ReadonlySet<string>): void {
  while (
    file.statements.some((each) => {
      const [name] = isLocalFunction(each) ? each.left : [];
      const binding = name === undefined || kept.has(name.text) ? undefined : names.of(name);
      if (binding === undefined || binding.reassigned) return false;
      const place = commonBranch(waysTo(file, binding, names, each));
      if (place === undefined) return false;
      place.list.splice(place.index, 0, each);
      file.statements.splice(file.statements.indexOf(each), 1);
      return true;
    })
  );
}

/** For each use of the function, the lists around it, from the outside to the first loop or function. */
function waysTo(file: tstl.File, binding: Binding, names: Names, declaration: tstl.Statement): Step[][] {
  const ways: Step[][] = [];

  function walk(value: unknown, way: Step[], closed: boolean, conditional: boolean): void {
    if (Array.isArray(value)) {
      for (const item of value) walk(item, way, closed, conditional);
    } else if (isNode(value) && value !== declaration) {
      if (tstl.isIdentifier(value) && names.of(value) === binding) ways.push(way);
      const isClosed = closed || tstl.isFunctionExpression(value) || tstl.isIterationStatement(value as tstl.Statement);
      for (const [key, part] of Object.entries(value)) {
        const inBranch = conditional || (tstl.isIfStatement(value) && key !== "condition");
        if (key !== "statements" || isClosed) {
          walk(part, way, isClosed, inBranch);
          continue;
        }
        const list = part as tstl.Statement[];
        for (const [index, each] of list.entries()) {
          walk(each, [...way, { list, index, conditional }], isClosed, conditional);
        }
      }
    }
  }

  walk(file, [], false, false);
  return ways;
}

/** The innermost branch that all ways lead through, and the first place in it that one of them leads to. */
function commonBranch(ways: Step[][]): Step | undefined {
  const [first] = ways;
  let found: Step | undefined;
  for (const [depth, step] of (first ?? []).entries()) {
    if (!ways.every((way) => way[depth]?.list === step.list)) break;
    const index = Math.min(...ways.map((way) => way[depth]?.index ?? 0));
    if (step.conditional) found = { ...step, index };
  }
  return found;
}
