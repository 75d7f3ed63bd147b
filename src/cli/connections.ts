/** `tollgate connections`: lists open connections per backend pod with their limits. */
import * as contract from "../service/operations/contract/contract.js";
import { operatorCommand, show } from "./control/operator-command.js";
import { counted, percentOf, whole } from "./numbers.js";
import { tableLines, toned } from "./printing.js";

const help = `Usage: tollgate connections

Lists the connections that hold a slot, per backend pod. The store counts them for all nodes together.

Examples:
  tollgate connections
  tollgate connections --json | jq '.pods[] | select(.connections == .limit)'
`;

export const command = operatorCommand({
  help,
  run: (call) =>
    show(call, { path: "/admin/ratelimit/connections", reply: contract.connectionsReply }, connectionsLines),
});

export function connectionsLines({ pods, total, rejected }: contract.ConnectionsReply, columns: number): string[] {
  const foot = `${counted(total, "connection")}, ${whole(rejected)} refused since the store was created`;
  const rows = pods.map(({ upstream, pod, connections, limit }) => {
    const isFull = limit > 0 && connections >= limit;
    const open = isFull ? toned("warning", whole(connections)) : whole(connections);
    return [upstream, pod, open, whole(limit), percentOf(connections, limit)];
  });
  const spare = ["upstream", "full"];
  const table = tableLines(["upstream", "pod", ">open", ">limit", ">full"], rows, columns, { spare });
  return [...(pods.length === 0 ? ["no route limits connections"] : table), toned("faint", foot)];
}
