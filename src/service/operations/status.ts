/** The status of the service, and connections per pod. */
import { getHeapStatistics } from "node:v8";
import { MAX_CONFIG_BYTES } from "../../config/load.js";
import type { OperationsContext } from "./context.js";
import type { ConnectionsReply, StatusReply } from "./contract/contract.js";
import { ifAvailable, READ_MS, within } from "./deadline.js";
import { emergencySource } from "./emergency.js";
import { megabytes, workerMemory } from "./health.js";
import { ok, type Reply } from "./reply.js";
import { statistics } from "./statistics.js";

const DEFAULT_LEASE_MS = 30_000;

export function statusOperations(context: OperationsContext) {
  const used = (bytes: number, limit: number) => ({
    used_mb: megabytes(bytes),
    free_mb: megabytes(Math.max(limit - bytes, 0)),
  });

  return {
    async status(): Promise<Reply<StatusReply>> {
      const [reports, facts, nodes] = await Promise.all([
        context.reports(),
        context.storeFacts(),
        ifAvailable(context.quota.nodes()),
      ]);
      const level = context.level(reports);
      const emergency = context.coordinator.emergency();
      const pinned = context.pin.current();
      const { used_mb, free_mb } = workerMemory(reports);
      const heap = getHeapStatistics();
      const inFlight = facts?.callsInFlight ?? 0;
      const poolSize = facts?.mostCallsInFlight ?? 0;
      return ok({
        node_id: context.node,
        version: context.version,
        status: context.state(),
        mode: emergency.active ? "emergency" : level > 0 ? "degraded" : "normal",
        degradation_level: level,
        degradation_pinned_until: pinned === undefined ? null : new Date(pinned.untilMs).toISOString(),
        emergency_mode: emergency.active,
        emergency: {
          source: emergencySource(emergency.source),
          seconds_left: Math.ceil(emergency.leftMs / 1000),
        },
        config_version: context.live.version(),
        uptime_seconds: context.uptimeSeconds(),
        workers: context.workers().listening,
        connections: reports.reduce((sum, { connections }) => sum + connections, 0),
        live_nodes:
          nodes?.filter(({ alive }) => alive).length ?? Math.max(0, ...reports.map(({ liveNodes }) => liveNodes)),
        shared_memory: {
          ratelimit: { used_mb, free_mb },
          config_cache: used(context.configBytes(), MAX_CONFIG_BYTES),
          metrics: used(heap.used_heap_size, heap.heap_size_limit),
        },
        redis: {
          cluster_nodes: facts?.nodes ?? 0,
          connected_nodes: facts?.connectedNodes ?? 0,
          pool_size: poolSize,
          active_connections: inFlight,
          idle_connections: Math.max(poolSize - inFlight, 0),
        },
        statistics: statistics(reports),
        timestamp: context.timestamp(),
      });
    },

    async connections(): Promise<Reply<ConnectionsReply>> {
      const pods = context.pods();
      const leaseMs = Math.max(DEFAULT_LEASE_MS, ...pods.map((pod) => pod.leaseMs));
      const names = [...new Set(pods.map(({ pod }) => pod))];
      const { total, rejected, perPod } = await within(READ_MS, context.slots.counts(names, leaseMs));
      return ok({
        total,
        rejected,
        pods: pods.map(({ upstream, pod, limit }) => ({ upstream, pod, connections: perPod.get(pod) ?? 0, limit })),
        timestamp: context.timestamp(),
      });
    },
  };
}
