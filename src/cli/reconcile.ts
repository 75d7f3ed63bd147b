/** `tollgate reconcile`: compares books and buckets now, of one app or of all, and corrects what has drifted. */

import type { ReconcileReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { expectApp } from "./control/app-name.js";
import { expectWords, operatorCommand } from "./control/operator-command.js";
import { counted, percent, whole } from "./numbers.js";
import { type Line, toned } from "./printing.js";

const help = `Usage: tollgate reconcile [APP] [--force]

Puts back what dead nodes held, and corrects the bucket of an app whose drift is above cluster.reconcile_tolerance. The
services do the same by themselves, once a minute. Without APP: all apps.

  --force  correct whatever the drift

Examples:
  tollgate reconcile
  tollgate reconcile video-service --force --reason "after the failover"
`;

export const reconcileCommand = operatorCommand({
  name: "reconcile",
  summary: "Put back what dead nodes held, and correct drift, now",
  help,
  options: { force: { type: "boolean", default: false } },
  isOrder: true,
  async run({ client, words, values, signature }) {
    expectWords(words, ["APP"], 0);
    const app = words[0] === undefined ? {} : { app_id: expectApp(words[0]) };
    const body = { ...app, force: values.force === true, ...signature };
    const reply = await client.call({
      method: "POST",
      path: "/admin/ratelimit/reconcile",
      body,
      reply: contract.reconcileReply,
    });
    return { reply, lines: () => reconcileLines(reply) };
  },
});

export function reconcileLines(reply: ReconcileReply): Line[] {
  const { app_id, apps, corrections_made: corrections, recovered_tokens: recovered, details } = reply;
  const isAll = app_id === "*";
  const lines: Line[] = [
    [isAll ? `${counted(apps, "app")} compared` : `${app_id} compared`],
    ["  corrections  ", corrections > 0 ? toned("warning", whole(corrections)) : "0"],
    ["  recovered    ", `${counted(recovered, "token")} that dead nodes held`],
    ["  drift        ", `${percent(reply.drift_before)} before, ${percent(reply.drift_after)} after`],
  ];
  if (!isAll) {
    const { l2_expected_tokens: expected, l2_actual_tokens: actual, correction } = details;
    lines.push([
      "  bucket       ",
      `expected ${whole(expected)}, had ${whole(actual)}, corrected by ${whole(correction)}`,
    ]);
  }
  return lines;
}
