/** `tollgate reload`: reloads the configuration. */
import * as contract from "../service/operations/contract/contract.js";
import { flagOption, readChoice } from "./command.js";
import { operatorCommand, show } from "./control/operator-command.js";
import { counted } from "./numbers.js";
import { toned, wrapped } from "./printing.js";

const sources = ["all", "file", "store"] as const;

const help = `Usage: tollgate reload [--source file|store|all] [--force] [--confirm]

Makes the service read its file, the layer in the store, or both, and apply changes at once. An invalid configuration is
rejected with a list of its problems, and the current one stays in force. So does a file that removes most apps, routes or
limits, because it may be truncated, and the loss of the layer in a store that was emptied, unless you confirm it.

  --source   what to read (default: all)
  --force    apply even if some changed options need a restart, or if nothing has changed
  --confirm  apply even if most apps, routes or limits are removed, or if the store has lost the layer

Examples:
  tollgate reload
  tollgate reload --source file --reason "limits of the new contract"
`;

export const command = operatorCommand({
  help,
  options: { source: { type: "string", default: "all" }, force: flagOption, confirm: flagOption },
  isMutating: true,
  run(call) {
    const source = readChoice("--source", call.values.source, sources);
    const { force, confirm } = call.values;
    // Services of an earlier version do not know `confirm`.
    const body = { source, force, ...(confirm ? { confirm } : {}), ...call.signature };
    const path = "/admin/ratelimit/reload";
    return show(call, { method: "POST", path, body, reply: contract.reloadReply }, reloadLines);
  },
});

export function reloadLines(reply: contract.ReloadReply, columns: number): string[] {
  const { status, config_version, previous_version: previous, restart_needed: restart } = reply;
  const affected = `${counted(reply.apps_affected, "app")} and ${counted(reply.limits_affected, "limit")} affected`;
  const version = toned("strong", config_version);
  const change = `reloaded: version ${version}, previously ${previous}; ${affected}`;
  const lines = [status === "unchanged" ? `unchanged: version ${version}` : change];
  return restart.length === 0 ? lines : [...lines, ...wrapped(`needs a restart: ${restart.join(", ")}`, columns)];
}
