/** `tollgate reload`: reloads the configuration. */
import type { ReloadReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { readChoice } from "./command.js";
import { answer, operatorCommand } from "./control/operator-command.js";
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
  options: { source: { type: "string", default: "all" }, force: { type: "boolean", default: false } },
  isOrder: true,
  async run({ client, values, signature, columns }) {
    const body = { source: readChoice("--source", values.source, sources), force: values.force, ...signature };
    const path = "/admin/ratelimit/reload";
    const reply = await client.call({ method: "POST", path, body, reply: contract.reloadReply });
    return answer(reply, (shown) => reloadLines(shown, columns));
  },
});

export function reloadLines(reply: ReloadReply, columns: number): string[] {
  const { status, config_version, previous_version: previous, apps_affected: apps, restart_needed: restart } = reply;
  const version = toned("strong", config_version);
  const change = `reloaded: version ${version}, previously ${previous}; ${counted(apps, "app")} affected`;
  const lines = [status === "unchanged" ? `unchanged: version ${version}` : change];
  return restart.length === 0 ? lines : [...lines, ...wrapped(`needs a restart: ${restart.join(", ")}`, columns)];
}
