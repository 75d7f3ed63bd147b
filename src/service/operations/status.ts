/** The status of the service, connections per pod, and metrics. */
import { getHeapStatistics } from "node:v8";
import { MAX_CONFIG_BYTES } from "../../config/load.js";
import type { Pod } from "../../config/options/slots.js";
import { WHOLE_SHARE } from "../../core/shard.js";
import { countRoutes } from "../../slots/route-counts.js";
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { ifAvailable, READ_MS } from "./deadline.js";
import { emergencySource } from "./emergency.js";
import { admin, type Endpoint, endpoint, ok, problem } from "./endpoint.js";
import { memory, workerMemory } from "./health.js";
import { statistics } from "./statistics.js";

const usage = ({ used_mb, free_mb }: ReturnType<typeof memory>) => ({ used_mb, free_mb });

async function shardsOf({ quota }: OperationsContext): Promise<contract.StatusReply["shards"]> {
  if (quota.shards.length === 1) return [];
  const { capacity, rate } = quota.limits();
  return (await quota.states({ deadlineMs: READ_MS })).map((state, shard) => ({
    ...{ shard, available: state !== undefined, tokens: state?.tokens ?? 0, held: state?.held ?? 0 },
    capacity: ((state?.share.capacity ?? 0) / WHOLE_SHARE) * capacity,
    rate: ((state?.share.rate ?? 0) / WHOLE_SHARE) * rate,
  }));
}

export async function statusOf(context: OperationsContext): Promise<contract.StatusReply> {
  const [reports, facts, nodes, shards] = await Promise.all([
    context.reports(),
    context.storeFacts(),
    ifAvailable(context.quota.holdings()),
    shardsOf(context),
  ]);
  const level = context.level(reports);
  const emergency = context.coordinator.emergency();
  const mode: contract.StatusReply["mode"] = emergency.active ? "emergency" : level > 0 ? "degraded" : "normal";
  const pinned = context.pin.current();
  const heap = getHeapStatistics();
  const inFlight = facts?.callsInFlight ?? 0;
  const poolSize = facts?.mostCallsInFlight ?? 0;
  return {
    node_id: context.node,
    version: context.version,
    status: context.state(),
    mode,
    degradation_level: level,
    degradation_pinned_until: pinned === undefined ? null : new Date(pinned.untilMs).toISOString(),
    emergency_mode: emergency.active,
    emergency: {
      bursts_stopped: emergency.burstsStopped,
      source: emergencySource(emergency.source),
      reason: emergency.reason,
      operator: emergency.operator,
      seconds_left: Math.ceil(emergency.leftMs / 1000),
    },
    config_version: context.live.version(),
    uptime_seconds: context.uptimeSeconds(),
    workers: context.workers().listening,
    connections: reports.reduce((sum, { connections }) => sum + connections, 0),
    live_nodes: nodes?.filter(({ alive }) => alive).length ?? Math.max(0, ...reports.map(({ liveNodes }) => liveNodes)),
    nodes: (nodes ?? []).map(({ node, alive, silentMs, held }) => ({
      node_id: node,
      alive,
      silent_ms: silentMs,
      held,
    })),
    shards,
    recalls: context.recalled(),
    shared_memory: {
      ratelimit: usage(workerMemory(reports)),
      config_cache: usage(memory(context.configBytes(), MAX_CONFIG_BYTES)),
      metrics: usage(memory(heap.used_heap_size, heap.heap_size_limit)),
    },
    redis: {
      cluster_nodes: facts?.nodes ?? 0,
      connected_nodes: facts?.connectedNodes ?? 0,
      pool_size: poolSize,
      active_connections: inFlight,
      idle_connections: Math.max(poolSize - inFlight, 0),
    },
    statistics: statistics(reports, context.planes.totals.all()),
    timestamp: context.timestamp(),
  };
}

export async function connectionsOf(
  context: OperationsContext,
  mostRoutes = Number.POSITIVE_INFINITY,
): Promise<contract.ConnectionsReply> {
  const limits = context.connectionLimits();
  const podsOf = new Map<string, Pod[]>([...limits.keys()].map((route) => [route, []]));
  for (const pod of context.pods()) podsOf.get(pod.route)?.push(pod);
  const asked = [...limits].slice(0, mostRoutes).map(([route, { leaseMs }]) => ({
    ...{ route, leaseMs, pods: podsOf.get(route)!.map(({ pod }) => pod) },
  }));
  const { counted, unavailable } = await countRoutes(context.slots, asked, { deadlineMs: READ_MS });
  return {
    total: counted.reduce((sum, { total }) => sum + total, 0),
    rejected: counted.reduce((sum, { rejected }) => sum + rejected, 0),
    routes: counted.map(({ route, total, rejected }) => {
      const { maxTotal = 0, maxPerApp = 0, maxPerClient = 0 } = limits.get(route) ?? {};
      return {
        ...{ route, connections: total, limit: maxTotal, rejected },
        ...{ max_per_app: maxPerApp, max_per_client: maxPerClient },
      };
    }),
    pods: counted.flatMap(({ route, perPod }) =>
      podsOf.get(route)!.map(({ upstream, pod, limit }) => ({
        ...{ route, upstream, pod, connections: perPod.get(pod) ?? 0, limit },
      })),
    ),
    unavailable,
    timestamp: context.timestamp(),
  };
}

export function statusEndpoints(context: OperationsContext): Endpoint[] {
  return [
    admin("GET", "status", {
      summary: "Status of this service.",
      reply: contract.statusReply,
      handle: async () => ok(await statusOf(context)),
    }),

    admin("GET", "connections", {
      summary: "Connections per route and pod.",
      reply: contract.connectionsReply,
      handle: async () => ok(await connectionsOf(context)),
    }),

    endpoint("GET", "/metrics", "address", {
      summary: "All metrics in the Prometheus format.",
      reply: { text: "text/plain" },
      others: { 404: { summary: "Metrics are disabled." } },
      async handle() {
        const page = await context.metricsPage();
        if (page !== undefined) return ok(page.parts, { mediaType: page.contentType });
        return problem(404, "not_found", "metrics_disabled", { detail: "metrics.enabled is false" });
      },
    }),
  ];
}
