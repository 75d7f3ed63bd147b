/** `tollgate reload`: reloads the configuration. */
import type { ReloadReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { readChoice } from "./command.js";
import { operatorCommand } from "./control/operator-command.js";
import { counted } from "./numbers.js";
import { type Line, type Style, toned, wrapped } from "./printing.js";

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
  async run({ client, values, signature, style }) {
    const source = readChoice("--source", String(values.source), sources);
    const body = { source, force: values.force === true, ...signature };
    const path = "/admin/ratelimit/reload";
    const reply = await client.call({ method: "POST", path, body, reply: contract.reloadReply });
    return { reply, lines: () => reloadLines(reply, style) };
  },
});

export function reloadLines(reply: ReloadReply, style: Style): Line[] {
  const { status, config_version: version, previous_version: previous, apps_affected: apps, restart_needed } = reply;
  const lines: Line[] =
    status === "unchanged"
      ? [["unchanged: version ", toned("strong", version)]]
      : [
          [
            "reloaded: version ",
            toned("strong", version),
            `, previously ${previous}; ${counted(apps, "app")} affected`,
          ],
        ];
  if (restart_needed.length === 0) return lines;
  return [...lines, ...wrapped(`needs a restart: ${restart_needed.join(", ")}`, style)];
}
