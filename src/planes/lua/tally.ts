/** What was counted of each app and of nobody, and which of it has changed since it was last told. */
import { type AppCounts, countDecision, countUnidentified, newCounts } from "./counts.js";

/** In the place of an app's id: of requests that belong to none. */
export const NOBODY = "*";

export interface Counted {
  id: string;
  counts: AppCounts;
}

/** A decision that is made. */
export interface Decided {
  app: { counts: AppCounts; limits: { id: string } };
  source: string;
  method: string;
  cost: number;
  code: string;
  allowed: boolean;
}

export const tally: { changed: Counted[]; nobody: AppCounts } = { changed: [], nobody: newCounts() };

function note(id: string, counts: AppCounts): void {
  counts.changed = true;
  tally.changed.push({ id, counts });
}

export function count(decided: Decided): void {
  const { app, source, method, cost, code, allowed } = decided;
  const { counts } = app;
  countDecision(counts, source, method, cost, code, allowed);
  if (!counts.changed) note(app.limits.id, counts);
}

/** To be added to. */
export function nobodysCounts(): AppCounts {
  const { nobody } = tally;
  if (!nobody.changed) note(NOBODY, nobody);
  return nobody;
}

/** A request that was refused before it was known whose it is. */
export function countNobody(code: string): void {
  countUnidentified(nobodysCounts(), code);
}
