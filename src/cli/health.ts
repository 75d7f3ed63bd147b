/** `tollgate health`: checks whether a service is live, serving, ready and healthy. */

import * as contract from "../service/operations/contract/contract.js";
import { EXIT_OK, EXIT_UNHEALTHY, flagOption } from "./command.js";
import { actionCommand, show } from "./control/operator-command.js";
import { counted, latency, span, whole } from "./numbers.js";
import { type Tone, tableLines, toned } from "./printing.js";

const help = `Usage: tollgate health [live|serving|ready|deep] [--strict]

  live     whether the process runs
  serving  whether it can decide requests, if only by on_store_failure: for readiness probes
  ready    whether store, workers and configuration are available
  deep     the state of every component, and the nodes of the cluster (default)

live, serving and ready need no token. Exit code 5 if the service does not serve, is not ready or unhealthy.

  --strict  also use exit code 5 if it is degraded

Examples:
  tollgate health
  tollgate health serving --timeout 2s     in the readiness probe of a container
`;

export const command = actionCommand({
  help,
  options: { strict: flagOption },
  defaultAction: "deep",
  actions: {
    live: {
      run: (call) =>
        show(call, { path: "/health/live", reply: contract.liveReply }, ({ status }) => [toned("good", status)]),
    },
    serving: {
      run: (call) => show(call, { path: "/health/serving", reply: contract.servingReply }, servingLines, servingCode),
    },
    ready: {
      run: (call) => show(call, { path: "/health/ready", reply: contract.readyReply }, readyLines, readyCode),
    },
    deep: {
      run(call) {
        const fine = call.values.strict ? ["healthy"] : ["healthy", "degraded"];
        const exitCode = ({ status }: contract.DeepReply) => (fine.includes(status) ? EXIT_OK : EXIT_UNHEALTHY);
        return show(call, { path: "/health/deep", reply: contract.deepReply }, deepLines, exitCode);
      },
    },
  },
});

const servingCode = ({ serving }: contract.ServingReply) => (serving ? EXIT_OK : EXIT_UNHEALTHY);

export function servingLines({ serving, state, workers }: contract.ServingReply): string[] {
  const listening = `${whole(workers.listening)} of ${counted(workers.expected, "worker")}`;
  return [`${serving ? toned("good", "serving") : toned("bad", "not serving")}: ${state}, ${listening}`];
}

const readyCode = ({ ready: isReady }: contract.ReadyReply) => (isReady ? EXIT_OK : EXIT_UNHEALTHY);

export function readyLines({ ready: isReady, checks }: contract.ReadyReply): string[] {
  const mark = (isFine: boolean) => (isFine ? toned("good", "ok") : toned("bad", "error"));
  return [
    isReady ? toned("good", "ready") : toned("bad", "not ready"),
    `  store          ${mark(checks.store === "ok")}`,
    `  workers        ${mark(checks.shared_memory === "ok")}`,
    `  configuration  ${mark(checks.config_loaded)}`,
  ];
}

const tones: Record<contract.DeepReply["status"], Tone> = { healthy: "good", degraded: "warning", unhealthy: "bad" };

export function deepLines(reply: contract.DeepReply, columns: number): string[] {
  const { nginx: gateway, redis: store, shared_memory: memory, overload, metrics, config } = reply.components;
  const { used_mb: used, capacity_mb: capacity } = memory.ratelimit;
  const shown = (status: contract.DeepReply["status"]) => toned(tones[status], status);
  const gatewayText = `${gateway.version}, up ${span(gateway.uptime)}, ${counted(gateway.workers, "worker")}`;
  const metricsText = metrics.registry_size === 0 ? "off" : counted(metrics.registry_size, "metric");
  const rows = [
    ["gateway", shown(gateway.status), gatewayText],
    ["store", shown(store.status), storeText(store)],
    ["memory", shown(memory.status), `${whole(used)} of ${whole(capacity)} MB`],
    ["metrics", shown(metrics.status), metricsText],
    ["config", shown(config.status), `${config.version}, loaded ${config.loaded_at}`],
  ];
  const rejected = config.last_error === null ? [] : [`the last reload was rejected: ${config.last_error}`];
  const emergency = reply.emergency_mode ? toned("bad", "emergency") : "no emergency";
  return [
    `${shown(reply.status)}  level ${reply.degradation_level}  ${emergency}`,
    ...tableLines(["component", "status", ""], rows, columns, { indent: "  " }),
    ...[...store.warnings, ...overload.warnings, ...rejected].map(
      (warning) => `${toned("warning", "warning")}: ${warning}`,
    ),
    "",
    ...nodeLines(reply, columns),
  ];
}

function storeText(store: contract.DeepReply["components"]["redis"]): string {
  const { kind, version, connected_nodes, cluster_nodes, latency_ms } = store;
  if (kind === "embedded") return "embedded in this process";
  if (latency_ms === null || connected_nodes === 0) return `${kind}, not available`;
  return `${kind} ${version}, ${connected_nodes} of ${counted(cluster_nodes, "server")}, ${latency(latency_ms)}`;
}

function nodeLines({ nodes }: contract.DeepReply, columns: number): string[] {
  if (nodes.length === 0) return [toned("faint", "no known nodes")];
  const rows = nodes.map(({ node_id, alive, silent_ms }) => [
    node_id,
    alive ? toned("good", "alive") : toned("warning", "dead"),
    silent_ms < 1000 ? "now" : `${span(silent_ms / 1000)} ago`,
  ]);
  return tableLines(["node", "", ">last message"], rows, columns);
}
