/** `tollgate reload`: reads the configuration anew; a bad one changes nothing. */

import { quoted } from "../config/problem.js";
import type { ReloadReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { expectWords, operatorCommand } from "./control/operator-command.js";
import { counted } from "./numbers.js";
import { type Line, type Style, toned, wrapped } from "./printing.js";

const sources = ["all", "file", "store"];

const help = `Usage: tollgate reload [--source file|store|all] [--force]

Has the service read its file, the layer in the store, or both, and apply what changed at once. A configuration that is
not right is refused with every mistake in it, and the one in force stays.

  --source  what is read anew (default: all)
  --force   apply the rest where some options need a restart, and apply again what has not changed

Examples:
  tollgate reload
  tollgate reload --source file --reason "limits of the new contract"
`;

export const reloadCommand = operatorCommand({
  name: "reload",
  summary: "Read the configuration anew; a bad one changes nothing",
  help,
  options: { source: { type: "string", default: "all" }, force: { type: "boolean", default: false } },
  isOrder: true,
  async run({ client, words, values, signature, style }) {
    expectWords(words, []);
    const source = String(values.source);
    if (!sources.includes(source)) {
      throw new UsageError(`--source: there is no ${quoted(source)}; there are ${sources.join(", ")}`);
    }
    const body = { source, force: values.force === true, ...signature };
    const reply = await client.call({
      method: "POST",
      path: "/admin/ratelimit/reload",
      body,
      reply: contract.reloadReply,
    });
    return { reply, lines: () => reloadLines(reply, style) };
  },
});

export function reloadLines(reply: ReloadReply, style: Style): Line[] {
  const { status, config_version: version, previous_version: previous, apps_affected: apps, restart_needed } = reply;
  const lines: Line[] =
    status === "unchanged"
      ? [["unchanged: version ", toned("strong", version)]]
      : [["reloaded: version ", toned("strong", version), `, before ${previous}; ${counted(apps, "app")} affected`]];
  if (restart_needed.length === 0) return lines;
  return [...lines, ...wrapped(`only after a restart: ${restart_needed.join(", ")}`, style)];
}
