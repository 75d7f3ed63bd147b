/** `tollgate degradation`: shows, pins or unpins the degradation level. */
import type { DegradationState } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { actionCommand, answer } from "./control/operator-command.js";
import { readDuration, readWhole, spanBetween } from "./numbers.js";
import { tableLines, toned } from "./printing.js";

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
        async run({ client, columns }) {
          const reply = await client.call({ path, reply: contract.degradationState });
          return answer(reply, (state) => degradationLines(state, columns));
        },
      },
      set: {
        words: ["LEVEL"],
        options: ["for"],
        async run({ client, words, values, signature }) {
          const level = readWhole("LEVEL", words[0]!, { least: 0, most: 3 });
          const time = { leastMs: 1_000, mostMs: 86_400_000 };
          const duration_seconds = readDuration("--for", values.for ?? "5m", time) / 1000;
          const body = { level, duration_seconds, ...signature };
          const reply = await client.call({ method: "POST", path, body, reply: contract.degradationReply });
          return answer(reply, ({ current_level, previous_level, expires_at }) => [
            `level ${current_level} until ${expires_at}; previously ${previous_level}`,
          ]);
        },
      },
      clear: {
        async run({ client, signature: { operator = "", reason }, columns }) {
          if (reason !== undefined) throw new UsageError("--reason cannot be used with clear");
          // A DELETE has no body, so the operator is a header.
          const name = operator.replace(/[^ -~]/g, "?").trim();
          const headers = name === "" ? {} : { "x-operator": name };
          const reply = await client.call({ method: "DELETE", path, headers, reply: contract.degradationState });
          return answer(reply, (state) => degradationLines(state, columns));
        },
      },
    },
  },
  "get",
);

export function degradationLines(reply: DegradationState, columns: number): string[] {
  const { level, pinned_level: pinned, pinned_until: until, operator, reason, workers, timestamp } = reply;
  const left = until === null ? "" : ` for another ${spanBetween(timestamp, until)}`;
  const by = operator === "" ? "" : ` by ${operator}`;
  const rows = workers.map((worker) => [worker.node_id, String(worker.level)]);
  rows.push(["data planes of this service", String(reply.service_level)]);
  return [
    toned(level === 0 ? "good" : "warning", `level ${level}`),
    pinned === null ? "  not pinned" : `  pinned at ${pinned}${by}${left}${reason === "" ? "" : `: ${reason}`}`,
    ...tableLines(["node", ">level"], rows, columns, { indent: "  " }),
  ];
}
