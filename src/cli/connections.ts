/** `tollgate connections`: lists open connections per route and backend pod with their limits. */
import * as contract from "../service/operations/contract/contract.js";
import { operatorCommand, show } from "./control/operator-command.js";
import { counted, percentOf, whole } from "./numbers.js";
import { tableLines, toned } from "./printing.js";

const help = `Usage: tollgate connections

Lists the connections that hold a slot, per route and backend pod. The store counts them for all nodes together. Each route
counts its own connections: a pod of two routes is listed for both. The second table has the limits of each route: in
total, per app and per client address.

Examples:
  tollgate connections
  tollgate connections --json | jq '.pods[] | select(.connections == .limit)'
`;

export const command = operatorCommand({
  help,
  run: (call) =>
    show(call, { path: "/admin/ratelimit/connections", reply: contract.connectionsReply }, connectionsLines),
});

/** Of a limit that 0 switches off. */
const limitOf = (limit: number) => (limit === 0 ? "none" : whole(limit));

export function connectionsLines(reply: contract.ConnectionsReply, columns: number): string[] {
  const { routes, pods, total, rejected, unavailable } = reply;
  const foot = `${counted(total, "connection")} with a slot, ${whole(rejected)} refused since the store was created`;
  const open = (connections: number, limit: number) =>
    limit > 0 && connections >= limit ? toned("warning", whole(connections)) : whole(connections);
  const podRows = pods.map(({ route, upstream, pod, connections, limit }) => [
    ...[route, upstream, pod, open(connections, limit), whole(limit), percentOf(connections, limit)],
  ]);
  const routeRows = routes.map(({ route, connections, limit, max_per_app, max_per_client, rejected: refused }) => [
    ...[route, open(connections, limit), limitOf(limit), limitOf(max_per_app), limitOf(max_per_client), whole(refused)],
  ]);
  const spare = ["upstream", "full"];
  return [
    ...(routes.length === 0 ? ["no route limits connections"] : []),
    ...(pods.length === 0
      ? []
      : tableLines(["route", "upstream", "pod", ">open", ">limit", ">full"], podRows, columns, { spare })),
    ...(routes.length === 0
      ? []
      : [
          "",
          ...tableLines(["route", ">open", ">limit", ">per app", ">per client", ">refused"], routeRows, columns, {
            spare: ["per app"],
          }),
        ]),
    ...unavailable.map((route) => toned("warning", `the store does not answer for the route ${route}`)),
    toned("faint", foot),
  ];
}
