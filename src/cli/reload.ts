/** `tollgate reload`: reloads the configuration. */
import * as contract from "../service/operations/contract/contract.js";
import { flagOption, readChoice } from "./command.js";
import { operatorCommand, show } from "./control/operator-command.js";
import { counted } from "./numbers.js";
import { toned, wrapped } from "./printing.js";

const sources = ["all", "file", "store"] as const;

const help = `Usage: tollgate reload [--source file|store|all] [--force]

Makes the service read its file, the layer in the store, or both, and apply changes at once. An invalid configuration is
rejected with a list of its problems, and the current one stays in force.

  --source  what to read (default: all)
  --force   apply also if some changed options need a restart, or if nothing has changed

Examples:
  tollgate reload
  tollgate reload --source file --reason "limits of the new contract"
`;

export const command = operatorCommand({
  help,
  options: { source: { type: "string", default: "all" }, force: flagOption },
  isOrder: true,
  run(call) {
    const source = readChoice("--source", call.values.source, sources);
    const body = { source, force: call.values.force, ...call.signature };
    const path = "/admin/ratelimit/reload";
    return show(call, { method: "POST", path, body, reply: contract.reloadReply }, reloadLines);
  },
});

export function reloadLines(reply: contract.ReloadReply, columns: number): string[] {
  const { status, config_version, previous_version: previous, apps_affected: apps, restart_needed: restart } = reply;
  const version = toned("strong", config_version);
  const change = `reloaded: version ${version}, previously ${previous}; ${counted(apps, "app")} affected`;
  const lines = [status === "unchanged" ? `unchanged: version ${version}` : change];
  return restart.length === 0 ? lines : [...lines, ...wrapped(`needs a restart: ${restart.join(", ")}`, columns)];
}
