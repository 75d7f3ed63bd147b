/** `tollgate emergency`: starts, stops or shows the emergency of the cluster. */
import type { EmergencyReply, EmergencyStateReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { actionCommand, answer, type OperatorCall } from "./control/operator-command.js";
import { readDuration, spanBetween } from "./numbers.js";
import { toned, wrapped } from "./printing.js";

const MAX_MS = 30 * 86_400_000;

const help = `Usage: tollgate emergency on [--for TIME | --until-off]
       tollgate emergency off
       tollgate emergency [status]

During an emergency, apps of priority 0 keep their whole limit, priority 1 half, priority 2 a tenth; others are blocked.
It takes effect on all nodes of the cluster within a second.

  --for TIME   duration (default: 10m; maximum: 30d)
  --until-off  no end

Examples:
  tollgate emergency on --for 15m --reason "database overloaded"
  tollgate emergency off --reason "recovered"
`;

const path = "/admin/ratelimit/emergency";

export const command = actionCommand(
  {
    help,
    options: { for: { type: "string" }, "until-off": { type: "boolean", default: false } },
    isOrder: true,
    actions: {
      on: {
        options: ["for", "until-off"],
        run: (call) => order(call, { action: "activate", duration_seconds: durationSeconds(call.values) }),
      },
      off: { run: (call) => order(call, { action: "deactivate" }) },
      status: {
        async run({ client, columns }) {
          const reply = await client.call({ path, reply: contract.emergencyState });
          return answer(reply, (state) => emergencyLines(state, columns));
        },
      },
    },
  },
  "status",
);

async function order({ client, signature, columns }: Omit<OperatorCall, "values">, action: object) {
  const body = { ...action, ...signature };
  const reply = await client.call({ method: "POST", path, body, reply: contract.emergencyReply });
  return answer(reply, (state) => emergencyLines(state, columns));
}

/** 0: no end. */
function durationSeconds(values: { for?: string; "until-off": boolean }): number {
  const { for: time, "until-off": untilOff } = values;
  if (time !== undefined && untilOff) throw new UsageError("--for and --until-off exclude each other");
  return untilOff ? 0 : readDuration("--for", time ?? "10m", { leastMs: 1_000, mostMs: MAX_MS }) / 1000;
}

export function emergencyLines(reply: EmergencyReply | EmergencyStateReply, columns: number): string[] {
  if (!reply.emergency_mode) return [toned("good", "no emergency")];
  const { started_at: started, expires_at: expires, affected_apps: apps, timestamp } = reply;
  const by = "source" in reply ? reply.source : reply.operator;
  const starter = by === "" ? "" : `, started ${by === "automatic" ? "automatically" : `by ${by}`}`;
  const lines = [`${toned("bad", "emergency")}${starter}`];
  if (started !== null) lines.push(`  since  ${started}`);
  lines.push(`  until  ${expires === null ? "turned off" : `${expires}, ${spanBetween(timestamp, expires)} left`}`);
  if ("reason" in reply && reply.reason !== "") lines.push(`  reason ${reply.reason}`);
  if (apps.length === 0) return [...lines, "  no app is limited"];
  const names = apps.slice(0, 20).join(", ");
  const more = apps.length > 20 ? ` and ${apps.length - 20} more` : "";
  return [...lines, ...wrapped(`limits reduced for ${names}${more}`, columns, "  ")];
}
