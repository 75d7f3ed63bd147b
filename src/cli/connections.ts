/** `tollgate connections`: lists open connections per backend pod with their limits. */
import type { ConnectionsReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { operatorCommand } from "./control/operator-command.js";
import { counted, percentOf, whole } from "./numbers.js";
import { type Line, type Span, type Style, tableLines, toned } from "./printing.js";

const help = `Usage: tollgate connections

Lists the connections that hold a slot, per backend pod. The store counts them for all nodes together.

Examples:
  tollgate connections
  tollgate connections --json | jq '.pods[] | select(.connections == .limit)'
`;

export const command = operatorCommand({
  help,
  async run({ client, style }) {
    const path = "/admin/ratelimit/connections";
    const reply = await client.call({ method: "GET", path, reply: contract.connectionsReply });
    return { reply, lines: () => connectionsLines(reply, style) };
  },
});

export function connectionsLines({ pods, total, rejected }: ConnectionsReply, style: Style): Line[] {
  const foot: Line = [
    toned("faint", `${counted(total, "connection")}, ${whole(rejected)} refused since the store was created`),
  ];
  if (pods.length === 0) return [["no route limits connections"], foot];
  const rows = pods.map(({ upstream, pod, connections, limit }): Span[] => {
    const count = whole(connections);
    const isFull = limit > 0 && connections >= limit;
    return [upstream, pod, isFull ? toned("warning", count) : count, whole(limit), percentOf(connections, limit)];
  });
  const columns = [
    { title: "upstream", spare: 2 },
    { title: "pod" },
    { title: "open", right: true },
    { title: "limit", right: true },
    { title: "full", right: true, spare: 1 },
  ];
  return [...tableLines(columns, rows, style), foot];
}
