/** `tollgate degradation`: shows, pins or unpins the degradation level. */
import type { DegradationState } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { actionCommand, operatorHeader, textOption } from "./control/operator-command.js";
import { readDuration, readWhole, span } from "./numbers.js";
import { type Line, type Span, type Style, tableLines, toned } from "./printing.js";

const help = `Usage: tollgate degradation [get]
       tollgate degradation set LEVEL [--for TIME]
       tollgate degradation clear

The level depends on the latency and the errors of the store:
  0  normal
  1  slow: leases twice as large, reports half as often
  2  very slow: leases five times as large, requests do not wait for the store
  3  unavailable: each app follows its on_store_failure
An operator can pin the level of one service and its workers for a limited time.

  --for TIME  duration of the pin (default: 5m; maximum: 1d)

Examples:
  tollgate degradation
  tollgate degradation set 2 --for 5m --reason "Redis upgrade"
`;

const path = "/admin/ratelimit/degradation";

export const command = actionCommand(
  {
    help,
    options: { for: { type: "string" } },
    isOrder: true,
    actions: {
      get: {
        async run({ client, style }) {
          const reply = await client.call({ method: "GET", path, reply: contract.degradationState });
          return { reply, lines: () => degradationLines(reply, style) };
        },
      },
      set: {
        words: ["LEVEL"],
        options: ["for"],
        async run({ client, words, values, signature }) {
          const level = readWhole("LEVEL", words[0] ?? "", { least: 0, most: 3 });
          const time = textOption(values, "for") ?? "5m";
          const duration_seconds = readDuration("--for", time, { leastMs: 1_000, mostMs: 86_400_000 }) / 1000;
          const body = { level, duration_seconds, ...signature };
          const reply = await client.call({ method: "POST", path, body, reply: contract.degradationReply });
          const { current_level, previous_level, expires_at } = reply;
          const text = `level ${current_level} until ${expires_at}; previously ${previous_level}`;
          return { reply, lines: () => [[text]] };
        },
      },
      clear: {
        async run({ client, signature, style }) {
          if (signature.reason !== undefined) throw new UsageError("--reason cannot be used with clear");
          const headers = operatorHeader(signature);
          const reply = await client.call({ method: "DELETE", path, ...headers, reply: contract.degradationState });
          return { reply, lines: () => degradationLines(reply, style) };
        },
      },
    },
  },
  "get",
);

export function degradationLines(reply: DegradationState, style: Style): Line[] {
  const { level, pinned_level: pinned, pinned_until: until, operator, reason, workers } = reply;
  const lines: Line[] = [[toned(level === 0 ? "good" : "warning", `level ${level}`)]];
  if (pinned !== null) {
    const left = until === null ? "" : ` for another ${span((Date.parse(until) - Date.parse(reply.timestamp)) / 1000)}`;
    const by = operator === "" ? "" : ` by ${operator}`;
    lines.push([`  pinned at ${pinned}${by}${left}${reason === "" ? "" : `: ${reason}`}`]);
  } else {
    lines.push(["  not pinned"]);
  }
  const rows = [
    ...workers.map((worker): Span[] => [worker.node_id, String(worker.level)]),
    ["data planes of this service", String(reply.service_level)],
  ];
  return [...lines, ...tableLines([{ title: "node" }, { title: "level", right: true }], rows, style, "  ")];
}
