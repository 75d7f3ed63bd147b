/** WebSocket connections: per pod, per proxy, refusals and leases. */
import { dashboard, labelVariable, queries } from "../panels.js";

const { rate, max, sum, quantile } = queries;
const byPod = { by: ["route", "pod"], where: { route: "=~$route" } } as const;
const slots = max("websocket_pod_slots", byPod);
const limit = max("websocket_pod_limit", byPod);

export const connections = () =>
  dashboard({
    name: "connections",
    title: "connections",
    description: "WebSocket connections and their slots.",
    variables: [labelVariable("route", "websocket_pod_limit", "route")],
    rows: [
      [
        "Connections",
        [
          { title: "Open connections", stat: {}, show: [[sum("websocket_connections_active_total"), "open"]] },
          {
            title: "Occupied slots",
            stat: {},
            show: [[`sum(${max("websocket_pod_slots", { by: ["route", "pod"] })})`, "slots"]],
          },
          {
            title: "Refused connections",
            unit: "ops",
            stat: { red: 1 },
            show: [[rate("websocket_connections_rejected_total"), "refused"]],
          },
        ],
      ],
      [
        "Pods",
        [
          { title: "Slots per pod", show: [[slots, "{{route}} {{pod}}"]] },
          {
            title: "Used share of the limit",
            unit: "percentunit",
            show: [[`${slots} / (${limit} > 0)`, "{{route}} {{pod}}"]],
          },
          { title: "Limit per pod", show: [[limit, "{{route}} {{pod}}"]] },
          {
            title: "Open connections per pod",
            description: "As the proxies see them.",
            show: [[sum("websocket_pod_connections", byPod), "{{route}} {{pod}}"]],
          },
          {
            title: "Open connections per proxy",
            show: [[max("websocket_proxy_instance", { by: ["proxy_id"] }), "{{proxy_id}}"]],
          },
        ],
      ],
      [
        "Admission",
        [
          {
            title: "Refusals by reason",
            unit: "ops",
            show: [[rate("websocket_refusals_total", { by: ["reason"] }), "{{reason}}"]],
          },
          {
            title: "Refusals of dry runs",
            unit: "ops",
            show: [[rate("websocket_dry_run_refusals_total", { by: ["reason"] }), "{{reason}}"]],
          },
          {
            title: "Time to acquire a slot",
            unit: "s",
            show: [
              [quantile(0.99, "websocket_acquire_seconds"), "P99"],
              [quantile(0.5, "websocket_acquire_seconds"), "P50"],
            ],
          },
          {
            title: "Leases",
            description: "Lost: expired before their renewal. Reclaimed: acquired again for an open connection.",
            unit: "ops",
            show: [
              [rate("websocket_leases_lost_total"), "lost"],
              [rate("websocket_leases_reclaimed_total"), "reclaimed"],
            ],
          },
        ],
      ],
    ],
  });
