/** The audit log: who ordered what, why, from where, and what came of it. One line each; no secret, no control character. */

import type { Clock } from "../../../shared/clock.js";
import type { Log } from "../../../shared/log.js";
import { printable } from "../../../shared/printable.js";

export interface AuditEntry {
  /** What was ordered, or the method and path of what was only to be read. */
  action: string;
  operator: string;
  /** The operator's own words. */
  reason: string;
  address: string;
  /** What came with the order, without operator and reason. */
  parameters?: unknown;
  outcome: "done" | "refused" | "failed";
  status: number;
  /** Why it was refused or failed. */
  why?: string;
  before?: unknown;
  after?: unknown;
}

export interface Audit {
  /** Always written. */
  ordered(entry: AuditEntry): void;
  /** From somebody who did not show that they may call at all: some lines per second, and of the others the number. */
  turnedAway(entry: AuditEntry): void;
}

const TURNED_AWAY_PER_SECOND = 10;
const SECRET = /(^|_)(token|password|secret|key|api_keys)$|^authorization$|^store$/i;
const MOST_LEVELS = 6;
const MOST_ITEMS = 50;

export function createAudit(log: Log, clock: Clock): Audit {
  let written = 0;
  let suppressed = 0;
  let isCounting = false;

  /** Warnings, so that a quieter log keeps them: they are few, and each is worth reading. */
  function write({ address, parameters, before, after, ...entry }: AuditEntry): void {
    const values = {
      ...(parameters === undefined ? {} : { parameters: shown(parameters) }),
      ...(before === undefined ? {} : { before: shown(before) }),
      ...(after === undefined ? {} : { after: shown(after) }),
    };
    log.warn({ audit: true, ...entry, client: address, ...values }, `${entry.action}: ${entry.outcome}`);
  }

  function secondEnded(): void {
    if (suppressed > 0) log.warn({ audit: true, suppressed }, "more calls were turned away in one second");
    [written, suppressed, isCounting] = [0, 0, false];
  }

  return {
    ordered: write,
    turnedAway(entry) {
      if (!isCounting) clock.after(1_000, secondEnded);
      isCounting = true;
      if (written >= TURNED_AWAY_PER_SECOND) suppressed++;
      else write(entry);
      written++;
    },
  };
}

/** A copy fit for a log line: secrets hidden, texts printable, and no more of it than anyone reads. */
export function shown(value: unknown, level = 0): unknown {
  if (typeof value === "string") return printable(value);
  if (typeof value !== "object" || value === null) return value;
  if (level === MOST_LEVELS) return "…";
  if (Array.isArray(value)) {
    const items = value.slice(0, MOST_ITEMS).map((item) => shown(item, level + 1));
    return value.length > MOST_ITEMS ? [...items, `and ${value.length - MOST_ITEMS} more`] : items;
  }
  const entries = Object.entries(value);
  const some = entries
    .slice(0, MOST_ITEMS)
    .map(([name, item]) => [printable(name), SECRET.test(name) ? "(hidden)" : shown(item, level + 1)]);
  const rest = entries.length > MOST_ITEMS ? { "…": `and ${entries.length - MOST_ITEMS} more` } : {};
  return { ...Object.fromEntries(some), ...rest };
}
