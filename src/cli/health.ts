/** `tollgate health`: whether a service lives, is ready, and how each of its parts is. */

import { quoted } from "../config/problem.js";
import type { DeepReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import type { ControlClient } from "./control/client.js";
import { type Answer, expectWords, operatorCommand } from "./control/operator-command.js";
import { FINE, UNHEALTHY } from "./exit-codes.js";
import { counted, latency, span, whole } from "./numbers.js";
import { type Line, type Span, type Style, type Tone, tableLines, toned } from "./printing.js";

const help = `Usage: tollgate health [live|ready|deep] [--strict]

  live   whether the service runs at all
  ready  whether it can do its work: store, workers, configuration
  deep   every part of it, and the nodes of the cluster (the default)

Live and ready need no token. Exit code 5 where it is not ready, or unhealthy.

  --strict  exit code 5 also where it is degraded

Examples:
  tollgate health
  tollgate health ready --timeout 2s     for a container's health check
`;

export const healthCommand = operatorCommand({
  name: "health",
  summary: "Whether a service is alive, ready and well",
  help,
  options: { strict: { type: "boolean", default: false } },
  async run({ client, words, values, style }) {
    expectWords(words, ["live, ready or deep"], 0);
    const [what = "deep"] = words;
    if (what === "live") return live(client);
    if (what === "ready") return ready(client);
    if (what === "deep") return deep(client, style, values.strict === true);
    throw new UsageError(`there is no health ${quoted(what)}; there are live, ready and deep`);
  },
});

async function live(client: ControlClient): Promise<Answer> {
  const reply = await client.call({ method: "GET", path: "/health/live", reply: contract.liveReply });
  return { reply, lines: () => [[toned("good", reply.status)]] };
}

async function ready(client: ControlClient): Promise<Answer> {
  const reply = await client.call({
    method: "GET",
    path: "/health/ready",
    reply: contract.readyReply,
    alsoFine: [503],
  });
  return { reply, lines: () => readyLines(reply), exitCode: reply.ready ? FINE : UNHEALTHY };
}

export function readyLines({ ready: isReady, checks }: contract.ReadyReply): Line[] {
  const mark = (isFine: boolean): Span => (isFine ? toned("good", "ok") : toned("bad", "error"));
  return [
    [isReady ? toned("good", "ready") : toned("bad", "not ready")],
    ["  store          ", mark(checks.redis === "ok")],
    ["  workers        ", mark(checks.shared_memory === "ok")],
    ["  configuration  ", mark(checks.config_loaded)],
  ];
}

async function deep(client: ControlClient, style: Style, isStrict: boolean): Promise<Answer> {
  const reply = await client.call({ method: "GET", path: "/health/deep", reply: contract.deepReply, alsoFine: [503] });
  const isFine = reply.status === "healthy" || (reply.status === "degraded" && !isStrict);
  return { reply, lines: () => deepLines(reply, style), exitCode: isFine ? FINE : UNHEALTHY };
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
    ...tableLines([{ title: "part" }, { title: "status" }, { title: "" }], rows, style, "  "),
  ];
  for (const warning of store.warnings) lines.push([toned("warning", "warning"), `: ${warning}`]);
  if (config.last_error !== null) {
    lines.push([toned("warning", "warning"), `: the last reload was refused: ${config.last_error}`]);
  }
  return [...lines, [], ...nodeLines(reply, style)];
}

function storeText({ kind, version, connected_nodes, cluster_nodes, latency_ms }: DeepReply["components"]["redis"]) {
  if (latency_ms === null || connected_nodes === 0) return `${kind}, no answer`;
  return `${kind} ${version}, ${connected_nodes} of ${counted(cluster_nodes, "server")}, ${latency(latency_ms)}`;
}

const emergencyText = ({ emergency_mode: isOn }: DeepReply): Span =>
  isOn ? toned("bad", "  emergency") : "  no emergency";

function nodeLines({ nodes }: DeepReply, style: Style): Line[] {
  if (nodes.length === 0) return [[toned("faint", "no nodes are known")]];
  const rows = nodes.map(({ node_id, alive, silent_ms }): Span[] => [
    node_id,
    alive ? toned("good", "alive") : toned("warning", "silent"),
    silent_ms < 1000 ? "now" : `${span(silent_ms / 1000)} ago`,
  ]);
  return tableLines([{ title: "node" }, { title: "" }, { title: "heard", right: true }], rows, style);
}
