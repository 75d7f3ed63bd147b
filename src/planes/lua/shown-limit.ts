/** What the headers of a decision say of its app's limit; texts that stay the same as long as the limit does are kept. */
import { wholeText } from "../../core/platform.js";

export interface ShownApp {
  limits: { id: string; guaranteed: number };
  /** What the service last said. */
  sync: { limit: number; remaining: number };
  shownLimit: number;
  limitText: string;
  policyHeader: string;
  /** Both headers begin alike, and the limit follows in the one where what remains does in the other. */
  rateHeaderStart: string;
}

function rateOf(app: ShownApp): number {
  return Math.max(app.limits.guaranteed, 1e-6);
}

export function showLimit(app: ShownApp, limit: number): void {
  const { id } = app.limits;
  const windowSeconds = Math.max(Math.ceil(limit / rateOf(app)), 1);
  app.shownLimit = limit;
  app.limitText = wholeText(limit);
  app.policyHeader = `"${id}";q=${app.limitText};w=${wholeText(windowSeconds)}`;
  app.rateHeaderStart = `"${id}";r=`;
}

/** With so much on the lease. */
export function remainingOf(app: ShownApp, balance: number): number {
  const { sync } = app;
  return Math.min(Math.max(balance, 0) + sync.remaining, sync.limit);
}

/** Seconds until all is there again. */
export function resetSecondsOf(app: ShownApp, remaining: number): number {
  return Math.ceil(Math.max(app.sync.limit - remaining, 0) / rateOf(app));
}
