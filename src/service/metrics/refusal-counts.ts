/**
 * Refusals by reason: the code, and the limit of `limits` that refused. Requests that only a dry run admitted are counted apart
 * from refusals everywhere.
 */
import { type Layer, layerOf } from "./labels.js";

/** Keys are a code, or a code and the name of a limit, separated by a space. */
export type RefusalCounts = Record<string, number>;

/** Instead of the name: the data plane reported only that it was one of `limits`. */
export const SOME_LIMIT = "*";

export interface Reason {
  code: string;
  layer: Layer;
  /** The limit of `limits` that refused; null if it was not one of them. */
  limit: string | null;
  /** The requests were admitted because of a dry run: they would be refused without it. */
  dry_run: boolean;
  total: number;
}

export function reasonKey(code: string, limitName: string | undefined): string {
  return limitName === undefined ? code : `${code} ${limitName}`;
}

export function layerOfKey(key: string): Layer {
  const [code = "", limit] = key.split(" ");
  return layerOf(code, limit);
}

export function addCount(counts: RefusalCounts, key: string, count = 1): void {
  if (count > 0) counts[key] = (counts[key] ?? 0) + count;
}

/** Of an app, a process, all data planes and all processes. */
export const KEPT_REFUSALS = 20;

/** Adds to a list of the last refusals, the newest at the end. */
export function keepRefusal<T>(list: T[], refusal: T): void {
  if (list.push(refusal) > KEPT_REFUSALS) list.shift();
}

export function addCounts(sums: RefusalCounts, more: RefusalCounts): void {
  for (const [key, count] of Object.entries(more)) addCount(sums, key, count);
}

/** Without limits. */
export function byCode(counts: RefusalCounts): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [key, count] of Object.entries(counts)) addCount(sums, key.replace(/ .*/, ""), count);
  return sums;
}

/** Refusals first, then what would be refused; each with the most frequent first. */
export function reasonsOf(refused: RefusalCounts, dryRun: RefusalCounts): Reason[] {
  const list = (counts: RefusalCounts, dry_run: boolean) =>
    Object.entries(counts)
      .map(([key, total]): Reason => {
        const [code = "", limit] = key.split(" ");
        return { code, layer: layerOf(code, limit), limit: limit ?? null, dry_run, total };
      })
      .sort((one, other) => other.total - one.total);
  return [...list(refused, false), ...list(dryRun, true)];
}

export interface ReportedReason {
  code: string;
  dryRun: boolean;
  /** For the app, and for limits. */
  own: number;
  byLimits: number;
}

/** What a data plane reported about an app: `CODE` and `dry_run_CODE`, and how many of each were by limits: `limit_…`. */
export function reportedReasons(numbers: Record<string, number[]>, codes: readonly string[]): ReportedReason[] {
  const count = (name: string) => numbers[name]?.[0] ?? 0;
  return codes.flatMap((code) =>
    [false, true].map((dryRun) => {
      const name = dryRun ? `dry_run_${code}` : code;
      const byLimits = Math.min(count(`limit_${name}`), count(name));
      return { code, dryRun, own: count(name) - byLimits, byLimits };
    }),
  );
}
