/** The audit log: who changed what, why, from where, and with which result. One line each, without secrets. */
import type { IncomingMessage } from "node:http";
import type { Difference } from "../../../config/live/differences.js";
import type { Clock } from "../../../shared/clock.js";
import type { Log } from "../../../shared/log.js";
import { createThrottle } from "../../../shared/throttle.js";
import type * as contract from "../../operations/contract/contract.js";
import type { Call, Endpoint, Reply } from "../../operations/endpoint.js";
import { redacted } from "../../operations/redact.js";
import { LONGEST_OPERATOR } from "../request.js";
import { addressOf } from "./guard.js";

/** Of calls that are not changes by an operator. */
const LINES_PER_SECOND = 10;

/** Kept in memory for operators; the log has all of them. */
const KEPT = 200;

const FOLLOWED = "config.followed";

type Kept = contract.AuditReply["entries"][number];

const followedDetail = (after: unknown) =>
  JSON.stringify({ after: { config_version: (Object(after) as { config_version?: unknown }).config_version } });

const changeText = ({ path, before, after }: Difference) => `${path}: ${before ?? "not set"} → ${after ?? "removed"}`;

/** Fields with other values afterwards. */
function stateChanges(before: unknown, after: unknown): Difference[] {
  const old: Record<string, unknown> = Object(redacted(before));
  const now: Record<string, unknown> = Object(redacted(after));
  const text = (value: unknown) =>
    value === undefined ? null : typeof value === "string" ? value : (JSON.stringify(value) ?? null);
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .map((path) => ({ path, before: text(old[path]), after: text(now[path]) }))
    .filter((one) => one.before !== one.after);
}

export function createAudit(log: Log, clock: Clock) {
  const kept: Kept[] = [];
  const throttle = createThrottle({
    clock,
    perSecond: () => LINES_PER_SECOND,
    suppressed: (kind, suppressed) =>
      log.warn({ audit: true, suppressed }, `more calls were ${kind} in the same second`),
  });

  /** Level warn, so that audit lines are kept at higher log levels. */
  function write({ parameters, before, after, changes, ...entry }: AuditEntry): void {
    const values = { parameters: redacted(parameters), before: redacted(before), after: redacted(after) };
    const changed = changes === undefined ? {} : { changes: redacted(changes.map(changeText)) };
    log.warn({ audit: true, ...entry, ...values, ...changed }, `${entry.action}: ${entry.outcome}`);
  }

  function keep(entry: Kept): void {
    kept.unshift(entry);
    if (kept.length > KEPT) kept.pop();
  }

  return {
    /**
     * A change by an operator: always logged and kept. A viewer can only sign in and out: some of these are logged per second,
     * and none is kept, because they would displace the changes.
     */
    changed(entry: AuditEntry, isViewers = false): void {
      if (isViewers) {
        if (throttle.admits("made by viewers")) write(entry);
        return;
      }
      write(entry);
      const { parameters, before, after, why, action, operator, client, outcome, reason } = entry;
      const values = redacted({ why, parameters, before, after });
      const shown = { action, operator, client, outcome, reason };
      const changes = [...(entry.changes ?? stateChanges(before, after))];
      // The service has followed the same change: it is listed once, with its author.
      const followed = kept.findIndex((one) => one.action === FOLLOWED && one.detail === followedDetail(after));
      if (entry.changes !== undefined && followed !== -1) kept.splice(followed, 1);
      keep({ timestamp: new Date().toISOString(), ...shown, detail: JSON.stringify(values), changes });
    },
    /** The configuration changed in its file or in the store, whoever did it. The change has its own log line. */
    followed(version: string, changes: readonly Difference[]): void {
      const nobody = { operator: "", client: "", reason: "", outcome: "done" as const };
      const detail = followedDetail({ config_version: version });
      keep({ timestamp: new Date().toISOString(), action: FOLLOWED, ...nobody, detail, changes: [...changes] });
    },
    /** The last changes, newest first. */
    recent: () => kept,
    /** A call without valid credentials: some are logged per second, the rest as a count. */
    rejected(entry: AuditEntry): void {
      if (throttle.admits("rejected")) write(entry);
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
    changes: reply.changes,
  };
}

/** `verified`: the token belongs to this operator alone. Otherwise the name is as claimed. */
function operatorFields({ headers }: IncomingMessage, name: string, call: Call | undefined) {
  const claimed = headers["x-operator"];
  const operator = call?.operator ?? (typeof claimed === "string" ? claimed.slice(0, LONGEST_OPERATOR) : "");
  return name === "" ? { operator, verified: false } : { operator: name, verified: true };
}
