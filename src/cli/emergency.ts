/** `tollgate emergency`: turns the emergency on or off for the whole cluster, or tells whether there is one. */

import { quoted } from "../config/problem.js";
import type { EmergencyReply, EmergencyStateReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { expectWords, operatorCommand, textOption } from "./control/operator-command.js";
import { readDuration, span } from "./numbers.js";
import { type Line, type Style, toned, wrapped } from "./printing.js";

const MOST_MS = 30 * 86_400_000;

const help = `Usage: tollgate emergency on [--for TIME | --until-off]
       tollgate emergency off
       tollgate emergency [status]

While an emergency lasts, apps of priority 0 keep all of their limit, 1 half, 2 a tenth, the others nothing. It holds on
every node of the cluster within a second.

  --for TIME   how long (default: 10m; at most 30d)
  --until-off  until it is turned off

Examples:
  tollgate emergency on --for 15m --reason "database at its limit"
  tollgate emergency off --reason "recovered"
`;

const path = "/admin/ratelimit/emergency";

export const emergencyCommand = operatorCommand({
  name: "emergency",
  summary: "Turn the cluster's emergency on or off, or show it",
  help,
  options: { for: { type: "string" }, "until-off": { type: "boolean", default: false } },
  isOrder: true,
  async run({ client, words, values, signature, style }) {
    expectWords(words, ["on, off or status"], 0);
    const [what = "status"] = words;
    const durationSeconds = readTime(what, textOption(values, "for"), values["until-off"] === true);
    if (what === "status") {
      const reply = await client.call({ method: "GET", path, reply: contract.emergencyState });
      return { reply, lines: () => emergencyLines(reply, style) };
    }
    if (what !== "on" && what !== "off") {
      throw new UsageError(`there is no emergency ${quoted(what)}; there are on, off and status`);
    }
    const order =
      what === "on"
        ? { action: "activate", duration_seconds: durationSeconds, ...signature }
        : { action: "deactivate", ...signature };
    const reply = await client.call({ method: "POST", path, body: order, reply: contract.emergencyReply });
    return { reply, lines: () => emergencyLines(reply, style) };
  },
});

function readTime(what: string, time: string | undefined, untilOff: boolean): number {
  if (what !== "on" && (time !== undefined || untilOff)) throw new UsageError("--for and --until-off go with on");
  if (time !== undefined && untilOff) throw new UsageError("--for and --until-off exclude each other");
  if (untilOff) return 0;
  return readDuration("--for", time ?? "10m", { leastMs: 1_000, mostMs: MOST_MS }) / 1000;
}

export function emergencyLines(reply: EmergencyReply | EmergencyStateReply, style: Style): Line[] {
  if (!reply.emergency_mode) return [[toned("good", "no emergency")]];
  const { started_at: started, expires_at: expires, affected_apps: apps } = reply;
  const by = "source" in reply ? reply.source : reply.operator;
  const left = expires === null ? 0 : Math.round((Date.parse(expires) - Date.parse(reply.timestamp)) / 1000);
  const lines: Line[] = [
    [toned("bad", "emergency"), by === "" ? "" : `, begun by ${by === "automatic" ? "itself" : by}`],
  ];
  if (started !== null) lines.push([`  since  ${started}`]);
  lines.push([expires === null ? "  until  it is turned off" : `  until  ${expires}, ${span(left)} left`]);
  if ("reason" in reply && reply.reason !== "") lines.push([`  reason ${reply.reason}`]);
  if (apps.length === 0) return [...lines, ["  no app gets less"]];
  const names = apps.slice(0, 20).join(", ");
  const more = apps.length > 20 ? ` and ${apps.length - 20} more` : "";
  return [...lines, ...wrapped(`less for ${names}${more}`, style, "  ")];
}
