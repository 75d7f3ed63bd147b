/** `tollgate degradation`: shows the degradation level, pins one for a time, or lets go of it. */

import { quoted } from "../config/problem.js";
import type { DegradationState } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { expectWords, type OperatorCall, operatorCommand, signed, textOption } from "./control/operator-command.js";
import { readDuration, readWhole, span } from "./numbers.js";
import { type Line, type Span, type Style, tableLines, toned } from "./printing.js";

const help = `Usage: tollgate degradation [get]
       tollgate degradation set LEVEL [--for TIME]
       tollgate degradation clear

The level follows how well the store answers, and says what requests do about it:
  0  the store answers fast
  1  slow: leases twice as large, reports half as often
  2  very slow: leases five times as large, and no request waits for the store
  3  gone: each app does what its on_store_failure says
An operator can pin a level for a time, on this service and its workers.

  --for TIME  how long (default: 5m; at most 1d)

Examples:
  tollgate degradation
  tollgate degradation set 2 --for 5m --reason "Redis is being upgraded"
`;

const path = "/admin/ratelimit/degradation";

export const degradationCommand = operatorCommand({
  name: "degradation",
  summary: "Show, pin or release the degradation level",
  help,
  options: { for: { type: "string" } },
  isOrder: true,
  async run(call) {
    const [what = "get"] = call.words;
    if (textOption(call.values, "for") !== undefined && what !== "set") throw new UsageError("--for goes with set");
    if (what === "get") return get(call);
    if (what === "set") return set(call);
    if (what === "clear") return clear(call);
    throw new UsageError(`there is no degradation ${quoted(what)}; there are get, set and clear`);
  },
});

async function get({ client, words, style }: OperatorCall) {
  expectWords(words, ["get"], 0);
  const reply = await client.call({ method: "GET", path, reply: contract.degradationState });
  return { reply, lines: () => degradationLines(reply, style) };
}

async function set({ client, words, values, signature }: OperatorCall) {
  expectWords(words, ["set", "LEVEL"]);
  const level = readWhole("LEVEL", words[1] ?? "", { least: 0, most: 3 });
  const time = textOption(values, "for") ?? "5m";
  const duration_seconds = readDuration("--for", time, { leastMs: 1_000, mostMs: 86_400_000 }) / 1000;
  const body = { level, duration_seconds, ...signature };
  const reply = await client.call({ method: "POST", path, body, reply: contract.degradationReply });
  const until = `until ${reply.expires_at}`;
  return { reply, lines: (): Line[] => [[`level ${reply.current_level} ${until}; it was ${reply.previous_level}`]] };
}

async function clear({ client, words, signature, style }: OperatorCall) {
  expectWords(words, ["clear"]);
  if (signature.reason !== undefined) throw new UsageError("--reason: clear takes none");
  const reply = await client.call({ method: "DELETE", path, ...signed(signature), reply: contract.degradationState });
  return { reply, lines: () => degradationLines(reply, style) };
}

export function degradationLines(reply: DegradationState, style: Style): Line[] {
  const { level, pinned_level: pinned, pinned_until: until, operator, reason, workers } = reply;
  const lines: Line[] = [[toned(level === 0 ? "good" : "warning", `level ${level}`)]];
  if (pinned !== null) {
    const left = until === null ? "" : ` for another ${span((Date.parse(until) - Date.parse(reply.timestamp)) / 1000)}`;
    const by = operator === "" ? "" : ` by ${operator}`;
    lines.push([`  pinned at ${pinned}${by}${left}${reason === "" ? "" : `: ${reason}`}`]);
  } else {
    lines.push(["  follows the store"]);
  }
  const rows = [
    ...workers.map((worker): Span[] => [worker.node_id, String(worker.level)]),
    ["data planes of this service", String(reply.service_level)],
  ];
  return [...lines, ...tableLines([{ title: "node" }, { title: "level", right: true }], rows, style, "  ")];
}
