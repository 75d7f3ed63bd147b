/** `tollgate degradation`: gets, sets or clears the degradation level. */
import * as contract from "../service/operations/contract/contract.js";
import { textOption } from "./command.js";
import { actionCommand, show } from "./control/operator-command.js";
import { latency, readDuration, readWhole, spanBetween, whole } from "./numbers.js";
import { tableLines, toned, wrapped } from "./printing.js";

const help = `Usage: tollgate degradation [get]
       tollgate degradation set LEVEL [--for TIME]
       tollgate degradation clear

The level depends on the latency and the errors of the store:
  0  normal
  1  slow: leases twice as large, reports half as often
  2  very slow: leases five times as large, requests do not wait for the store
  3  unavailable: each app follows its on_store_failure
set pins the level of one service and its workers for a limited time; clear ends that.

  --for TIME  how long set applies (default: 5m; maximum: 1d)

Examples:
  tollgate degradation
  tollgate degradation set 2 --for 5m --reason "Redis upgrade"
`;

const path = "/admin/ratelimit/degradation";

export const command = actionCommand({
  help,
  options: { for: textOption },
  isMutating: true,
  defaultAction: "get",
  actions: {
    get: { run: (call) => show(call, { path, reply: contract.degradationState }, degradationLines) },
    set: {
      words: ["LEVEL"],
      options: ["for"],
      run(call) {
        const level = readWhole("LEVEL", call.words.required("LEVEL"), { least: 0, most: 3 });
        const bounds = { leastMs: 1_000, mostMs: 86_400_000 };
        const duration_seconds = readDuration("--for", call.values.for ?? "5m", bounds) / 1000;
        const body = { level, duration_seconds, ...call.signature };
        return show(call, { method: "POST", path, body, reply: contract.degradationReply }, (reply) => [
          `level ${reply.current_level} until ${reply.expires_at}; previously ${reply.previous_level}`,
        ]);
      },
    },
    clear: {
      run(call) {
        const body = call.signature;
        return show(call, { method: "DELETE", path, body, reply: contract.degradationState }, degradationLines);
      },
    },
  },
});

export function degradationLines(reply: contract.DegradationState, columns: number): string[] {
  const { level, pinned_level: pinned, pinned_until: until, operator, reason, workers, timestamp } = reply;
  const left = until === null ? "" : ` for another ${spanBetween(timestamp, until)}`;
  const by = operator === "" ? "" : ` by ${operator}`;
  const rows = workers.map(({ node_id, level: own, store_latency_ms, store_calls, store_errors }) => [
    node_id,
    String(own),
    store_calls === 0 ? "-" : latency(store_latency_ms),
    whole(store_calls),
    whole(store_errors),
  ]);
  rows.push(["data planes of this service", String(reply.service_level), "", "", ""]);
  return [
    toned(level === 0 ? "good" : "warning", `level ${level}`),
    pinned === null ? "  not pinned" : `  pinned at ${pinned}${by}${left}${reason === "" ? "" : `: ${reason}`}`,
    ...tableLines(["node", ">level", ">store latency", ">calls in 2 s", ">failed"], rows, columns, { indent: "  " }),
    ...wrapped(
      `Level 1 from a mean latency of ${latency(reply.slow_ms)} on, 2 above ${latency(reply.very_slow_ms)} or with 5 % of failed calls, ` +
        "3 with timeouts or 50 %. On a busy machine the time that this process waits for a core counts as well.",
      columns,
      "  ",
    ),
  ];
}
