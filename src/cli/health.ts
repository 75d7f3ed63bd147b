/** `tollgate health`: checks whether a service is live, ready and healthy. */
import type { DeepReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { actionCommand } from "./control/operator-command.js";
import { FINE, UNHEALTHY } from "./exit-codes.js";
import { counted, latency, span, whole } from "./numbers.js";
import { type Line, type Span, type Style, type Tone, tableLines, toned } from "./printing.js";

const help = `Usage: tollgate health [live|ready|deep] [--strict]

  live   whether the process runs
  ready  whether store, workers and configuration are available
  deep   the state of every component, and the nodes of the cluster (default)

live and ready need no token. Exit code 5 if the service is not ready or unhealthy.

  --strict  exit code 5 also if it is degraded

Examples:
  tollgate health
  tollgate health ready --timeout 2s     in a container health check
`;

export const command = actionCommand(
  {
    help,
    options: { strict: { type: "boolean", default: false } },
    actions: {
      live: {
        async run({ client }) {
          const reply = await client.call({ method: "GET", path: "/health/live", reply: contract.liveReply });
          return { reply, lines: () => [[toned("good", reply.status)]] };
        },
      },
      ready: {
        async run({ client }) {
          const path = "/health/ready";
          const reply = await client.call({ method: "GET", path, reply: contract.readyReply, alsoFine: [503] });
          return { reply, lines: () => readyLines(reply), exitCode: reply.ready ? FINE : UNHEALTHY };
        },
      },
      deep: {
        async run({ client, style, values }) {
          const path = "/health/deep";
          const reply = await client.call({ method: "GET", path, reply: contract.deepReply, alsoFine: [503] });
          const isFine = reply.status === "healthy" || (reply.status === "degraded" && values.strict !== true);
          return { reply, lines: () => deepLines(reply, style), exitCode: isFine ? FINE : UNHEALTHY };
        },
      },
    },
  },
  "deep",
);

export function readyLines({ ready: isReady, checks }: contract.ReadyReply): Line[] {
  const mark = (isFine: boolean): Span => (isFine ? toned("good", "ok") : toned("bad", "error"));
  return [
    [isReady ? toned("good", "ready") : toned("bad", "not ready")],
    ["  store          ", mark(checks.redis === "ok")],
    ["  workers        ", mark(checks.shared_memory === "ok")],
    ["  configuration  ", mark(checks.config_loaded)],
  ];
}

const tones: Record<DeepReply["status"], Tone> = { healthy: "good", degraded: "warning", unhealthy: "bad" };

export function deepLines(reply: DeepReply, style: Style): Line[] {
  const { nginx: gateway, redis: store, shared_memory: memory, metrics, config } = reply.components;
  const { ratelimit: heap } = memory;
  const parts: [string, DeepReply["status"], string][] = [
    [
      "gateway",
      gateway.status,
      `${gateway.version}, up ${span(gateway.uptime)}, ${counted(gateway.workers, "worker")}`,
    ],
    ["store", store.status, storeText(store)],
    ["memory", memory.status, `${whole(heap.used_mb)} of ${whole(heap.capacity_mb)} MB`],
    ["metrics", metrics.status, metrics.registry_size === 0 ? "off" : `${counted(metrics.registry_size, "metric")}`],
    ["config", config.status, `${config.version}, loaded ${config.loaded_at}`],
  ];
  const rows = parts.map(([name, status, what]): Span[] => [name, toned(tones[status], status), what]);
  const lines: Line[] = [
    [toned(tones[reply.status], reply.status), `  level ${reply.degradation_level}`, emergencyText(reply)],
    ...tableLines([{ title: "component" }, { title: "status" }, { title: "" }], rows, style, "  "),
  ];
  for (const warning of store.warnings) lines.push([toned("warning", "warning"), `: ${warning}`]);
  if (config.last_error !== null) {
    lines.push([toned("warning", "warning"), `: the last reload was rejected: ${config.last_error}`]);
  }
  return [...lines, [], ...nodeLines(reply, style)];
}

function storeText({ kind, version, connected_nodes, cluster_nodes, latency_ms }: DeepReply["components"]["redis"]) {
  if (latency_ms === null || connected_nodes === 0) return `${kind}, no reply`;
  return `${kind} ${version}, ${connected_nodes} of ${counted(cluster_nodes, "server")}, ${latency(latency_ms)}`;
}

const emergencyText = ({ emergency_mode: isOn }: DeepReply): Span =>
  isOn ? toned("bad", "  emergency") : "  no emergency";

function nodeLines({ nodes }: DeepReply, style: Style): Line[] {
  if (nodes.length === 0) return [[toned("faint", "no known nodes")]];
  const rows = nodes.map(({ node_id, alive, silent_ms }): Span[] => [
    node_id,
    alive ? toned("good", "alive") : toned("warning", "dead"),
    silent_ms < 1000 ? "now" : `${span(silent_ms / 1000)} ago`,
  ]);
  return tableLines([{ title: "node" }, { title: "" }, { title: "last message", right: true }], rows, style);
}
