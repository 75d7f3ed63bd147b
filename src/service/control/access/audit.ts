/** The audit log: who changed what, why, from where, and with which result. One line each, without secrets. */
import type { IncomingMessage } from "node:http";
import type { Clock } from "../../../shared/clock.js";
import type { Log } from "../../../shared/log.js";
import type * as contract from "../../operations/contract/contract.js";
import type { Call, Endpoint, Reply } from "../../operations/endpoint.js";
import { redacted } from "../../operations/redact.js";
import { LONGEST_OPERATOR } from "../request.js";
import { addressOf } from "./guard.js";

const REJECTED_PER_SECOND = 10;

/** Kept in memory for operators; the log has all of them. */
const KEPT = 200;

export function createAudit(log: Log, clock: Clock) {
  const kept: contract.AuditReply["entries"] = [];
  let written = 0;
  let suppressed = 0;

  /** Level warn, so that audit lines are kept at higher log levels. */
  function write({ parameters, before, after, ...entry }: AuditEntry): void {
    const values = { parameters: redacted(parameters), before: redacted(before), after: redacted(after) };
    log.warn({ audit: true, ...entry, ...values }, `${entry.action}: ${entry.outcome}`);
  }

  function secondEnded(): void {
    if (suppressed > 0) log.warn({ audit: true, suppressed }, "more calls were rejected in the same second");
    [written, suppressed] = [0, 0];
  }

  return {
    /** Always logged. */
    changed(entry: AuditEntry): void {
      write(entry);
      const { parameters, before, after, why, action, operator, client, outcome, reason } = entry;
      const values = redacted({ why, parameters, before, after });
      const shown = { action, operator, client, outcome, reason };
      kept.unshift({ timestamp: new Date().toISOString(), ...shown, detail: JSON.stringify(values) });
      if (kept.length > KEPT) kept.pop();
    },
    /** The last changes, newest first. */
    recent: () => kept,
    /** A call without valid credentials: some are logged per second, the rest as a count. */
    rejected(entry: AuditEntry): void {
      if (written === 0) clock.after(1_000, secondEnded);
      if (written >= REJECTED_PER_SECOND) suppressed++;
      else write(entry);
      written++;
    },
  };
}

export type AuditEntry = ReturnType<typeof auditEntry>;

export interface Audited {
  request: IncomingMessage;
  endpoint: Endpoint;
  reply: Reply;
  /** The operator or data plane that owns the credentials; empty if several share them, or if they were rejected. */
  name: string;
  /** Undefined if the request was rejected before its body was read. */
  call?: Call | undefined;
}

export function auditEntry({ request, endpoint, reply, name, call }: Audited) {
  const { action, method, path, role } = endpoint;
  const { operator: _, reason, ...parameters } = Object(call?.body) as Record<string, unknown>;
  const { reason: cause, code } = Object(reply.body) as { reason?: unknown; code?: unknown };
  const { status, before, after } = reply;
  const isDone = status < 400 && reply.refused !== true;
  return {
    action: action ?? `${method} ${path}`,
    ...(role === "plane" ? { operator: "", verified: false, plane: name } : operatorFields(request, name, call)),
    client: addressOf(request),
    status,
    /** As given by the operator. */
    reason: typeof reason === "string" ? reason : "",
    parameters: call === undefined ? undefined : (reply.parameters ?? { ...call.params, ...parameters }),
    outcome: isDone ? ("done" as const) : status >= 500 ? ("failed" as const) : ("refused" as const),
    /** The reason of a refusal or failure. */
    why: isDone ? undefined : String(code ?? cause ?? ""),
    before,
    after,
  };
}

/** `verified`: the token belongs to this operator alone. Otherwise the name is as claimed. */
function operatorFields({ headers }: IncomingMessage, name: string, call: Call | undefined) {
  const claimed = headers["x-operator"];
  const operator = call?.operator ?? (typeof claimed === "string" ? claimed.slice(0, LONGEST_OPERATOR) : "");
  return name === "" ? { operator, verified: false } : { operator: name, verified: true };
}
