/** `tollgate reconcile`: recovers tokens of dead nodes and corrects drifted buckets. */

import * as contract from "../service/operations/contract/contract.js";
import { flagOption } from "./command.js";
import { expectApp, operatorCommand, show } from "./control/operator-command.js";
import { counted, percent, whole } from "./numbers.js";
import { toned } from "./printing.js";

const help = `Usage: tollgate reconcile [APP] [--force]

Returns the tokens of dead nodes and corrects buckets whose drift is above cluster.reconcile_tolerance. Without APP, for
all apps. The services do the same once a minute.

  --force  correct any drift

Examples:
  tollgate reconcile
  tollgate reconcile video-service --force --reason "after the failover"
`;

export const command = operatorCommand({
  help,
  options: { force: flagOption },
  isMutating: true,
  words: ["[APP]"],
  run(call) {
    const app = call.words.optional("APP");
    const app_id = app === undefined ? undefined : expectApp(app);
    const body = { app_id, force: call.values.force, ...call.signature };
    const path = "/admin/ratelimit/reconcile";
    return show(call, { method: "POST", path, body, reply: contract.reconcileReply }, reconcileLines);
  },
});

export function reconcileLines(reply: contract.ReconcileReply): string[] {
  const { app_id, apps, corrections_made: corrections, recovered_tokens: recovered, details } = reply;
  const { l2_expected_tokens: expected, l2_actual_tokens: actual, correction } = details;
  const isAll = app_id === "*";
  const lines = [
    `${isAll ? counted(apps, "app") : app_id} reconciled`,
    `  corrections  ${corrections > 0 ? toned("warning", whole(corrections)) : "0"}`,
    `  recovered    ${counted(recovered, "token")} of dead nodes`,
    `  drift        ${percent(reply.drift_before)} before, ${percent(reply.drift_after)} after`,
  ];
  const bucket = `expected ${whole(expected)}, had ${whole(actual)}, corrected by ${whole(correction)}`;
  return isAll ? lines : [...lines, `  bucket       ${bucket}`];
}
