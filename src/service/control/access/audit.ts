/** The audit log: who changed what, why, from where, and with which result. One line each, without secrets. */
import type { Clock } from "../../../shared/clock.js";
import type { Log } from "../../../shared/log.js";
import { redacted } from "../../operations/redact.js";

export interface AuditEntry {
  /** The name of the change, or method and path of a read. */
  action: string;
  operator: string;
  /** As given by the operator. */
  reason: string;
  address: string;
  /** The request without operator and reason. */
  parameters?: unknown;
  outcome: "done" | "refused" | "failed";
  status: number;
  /** The reason of a refusal or failure. */
  why?: string | undefined;
  before?: unknown;
  after?: unknown;
}

const REJECTED_PER_SECOND = 10;

export function createAudit(log: Log, clock: Clock) {
  let written = 0;
  let suppressed = 0;
  let isCounting = false;

  /** Level warn, so that audit lines are kept at higher log levels. */
  function write({ address, parameters, before, after, ...entry }: AuditEntry): void {
    const values = { parameters: redacted(parameters), before: redacted(before), after: redacted(after) };
    log.warn({ audit: true, ...entry, client: address, ...values }, `${entry.action}: ${entry.outcome}`);
  }

  function secondEnded(): void {
    if (suppressed > 0) log.warn({ audit: true, suppressed }, "more calls were rejected in the same second");
    [written, suppressed, isCounting] = [0, 0, false];
  }

  return {
    /** Always logged. */
    changed: write,
    /** A call without valid credentials: some are logged per second, the rest as a count. */
    rejected(entry: AuditEntry): void {
      if (!isCounting) clock.after(1_000, secondEnded);
      isCounting = true;
      if (written >= REJECTED_PER_SECOND) suppressed++;
      else write(entry);
      written++;
    },
  };
}
