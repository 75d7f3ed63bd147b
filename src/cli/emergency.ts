/** `tollgate emergency`: turns the emergency of the cluster on or off, or shows it. */
import * as contract from "../service/operations/contract/contract.js";
import { flagOption, textOption, UsageError } from "./command.js";
import { actionCommand, type OperatorCall, show } from "./control/operator-command.js";
import { readDuration, spanBetween } from "./numbers.js";
import { toned, wrapped } from "./printing.js";

const MAX_MS = 30 * 86_400_000;

const help = `Usage: tollgate emergency on [--for TIME | --until-off]
       tollgate emergency off
       tollgate emergency [status]

During an emergency, apps of priority 0 keep their whole limit, priority 1 half, priority 2 a tenth; others are blocked.
It takes effect on all nodes of the cluster within a second. With cluster.automatic_emergency, the cluster stops bursts and
borrowing when 95 % of its bucket are used, and starts an emergency only if it then cannot pay the apps' own rates.

  --for TIME   duration (default: 10m; maximum: 30d)
  --until-off  no end

Examples:
  tollgate emergency on --for 15m --reason "database overloaded"
  tollgate emergency off --reason "recovered"
`;

const path = "/admin/ratelimit/emergency";

export const command = actionCommand({
  help,
  options: { for: textOption, "until-off": flagOption },
  isMutating: true,
  defaultAction: "status",
  actions: {
    on: {
      options: ["for", "until-off"],
      run: (call) => order(call, { action: "activate", duration_seconds: durationSeconds(call.values) }),
    },
    off: { run: (call) => order(call, { action: "deactivate" }) },
    status: { run: (call) => show(call, { path, reply: contract.emergencyState }, emergencyLines) },
  },
});

function order(call: Omit<OperatorCall, "values">, action: object) {
  const body = { ...action, ...call.signature };
  return show(call, { method: "POST", path, body, reply: contract.emergencyReply }, emergencyLines);
}

/** 0: no end. */
function durationSeconds(values: { for?: string; "until-off": boolean }): number {
  const { for: time, "until-off": untilOff } = values;
  if (time !== undefined && untilOff) throw new UsageError("--for and --until-off exclude each other");
  return untilOff ? 0 : readDuration("--for", time ?? "10m", { leastMs: 1_000, mostMs: MAX_MS }) / 1000;
}

/** The first stage of an automatic emergency. */
export const BURSTS_STOPPED =
  "bursts and borrowing are stopped, because 95 % of L1 are used; apps keep their own rates";

export function emergencyLines(
  reply: contract.EmergencyReply | contract.EmergencyStateReply,
  columns: number,
): string[] {
  if (!reply.emergency_mode) {
    return [reply.bursts_stopped ? toned("warning", BURSTS_STOPPED) : toned("good", "no emergency")];
  }
  const { started_at: started, expires_at: expires, affected_apps: apps, timestamp } = reply;
  const automatic = "source" in reply && reply.source === "automatic";
  const starter = `, started ${automatic ? "automatically" : `by ${reply.operator || "an operator"}`}`;
  const lines = [`${toned("bad", "emergency")}${starter}`];
  if (started !== null) lines.push(`  since  ${started}`);
  const open = automatic ? "usage is below 80 %" : "turned off";
  lines.push(`  until  ${expires === null ? open : `${expires}, ${spanBetween(timestamp, expires)} left`}`);
  if (reply.reason !== "") lines.push(`  reason ${reply.reason}`);
  if (apps.length === 0) return [...lines, "  no app is limited"];
  const names = apps.slice(0, 20).join(", ");
  const more = apps.length > 20 ? ` and ${apps.length - 20} more` : "";
  return [...lines, ...wrapped(`limits reduced for ${names}${more}`, columns, "  ")];
}
