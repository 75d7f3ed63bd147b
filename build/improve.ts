/** Makes the compiler's Lua cheaper to run without changing what it does. */
import type * as tstl from "typescript-to-lua";
import { moveColdFunctions } from "./cold-functions.js";
import { writeCountingLoops } from "./counting-loops.js";
import { withComments } from "./exits.js";
import { foldIndexes } from "./index-folding.js";
import { localizeLibrary } from "./library-locals.js";
import { copyOf, namesOf } from "./lua-names.js";
import { keepFieldsInLocals } from "./plain-locals.js";
import { spliceCalls } from "./splice.js";

/** Comment lines to stand before a statement at the top, or, once it is gone, before the next one. */
export type Headings = Map<tstl.Statement, string[]>;

export interface Improvements {
  headings: Headings;
  /** Functions that must stay at the top, by their names. */
  kept: ReadonlySet<string>;
  /** Every call runs the whole text: see LuaOptions. */
  runsWhole: boolean;
}

export function improve(file: tstl.File, { headings, kept, runsWhole }: Improvements): void {
  // The compiler uses some nodes twice; what is changed in one place must not change in another.
  const order = file.statements.map((statement) => ({
    statement: copyOf(statement, () => undefined),
    heading: headings.get(statement) ?? [],
  }));
  file.statements = order.map(({ statement }) => statement);
  const names = namesOf(file);
  if (runsWhole) {
    spliceCalls(file, names, kept);
    keepFieldsInLocals(file, names);
    moveColdFunctions(file, names, kept);
  }
  writeCountingLoops(file, names);
  foldIndexes(file);
  names.writeBack();
  const left = new Set(file.statements);
  let heading: string[] = [];
  for (const each of order) {
    heading.push(...each.heading);
    if (!left.has(each.statement)) continue;
    withComments(each.statement, heading);
    heading = [];
  }
  const original = new Set(order.map(({ statement }) => statement));
  withComments(file.statements.find((statement) => !original.has(statement)) ?? file.statements.at(-1), heading);
  localizeLibrary(file);
}
