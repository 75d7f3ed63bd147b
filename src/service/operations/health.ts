/** Health of the service: liveness, readiness, and the state of each component. */
import { getHeapStatistics } from "node:v8";
import type { NodeReport } from "../metrics/reports.js";
import type { OperationsContext } from "./context.js";
import type { DeepReply, LiveReply, ReadyReply } from "./contract/contract.js";
import { ifAvailable } from "./deadline.js";
import { ok, type Reply } from "./reply.js";

type Health = DeepReply["status"];

const severity: Health[] = ["healthy", "degraded", "unhealthy"];
/** A heap above this share is reported as degraded. */
const FULL = 0.9;
const MEGABYTE = 1024 * 1024;

export const megabytes = (bytes: number) => Math.round((bytes / MEGABYTE) * 1000) / 1000;

export function healthOperations(context: OperationsContext) {
  function workersHealth(): Health {
    const { expected, listening } = context.workers();
    if (listening >= expected) return "healthy";
    return listening > 0 ? "degraded" : "unhealthy";
  }

  async function storeHealth(): Promise<DeepReply["components"]["redis"]> {
    const facts = await context.storeFacts();
    const { kind } = context.store;
    if (facts === undefined) {
      return {
        status: "unhealthy",
        kind,
        version: "",
        cluster_nodes: 0,
        connected_nodes: 0,
        latency_ms: null,
        eviction_policy: "unknown",
        warnings: ["The store does not answer."],
      };
    }
    const isHealthy = facts.warnings.length === 0 && facts.connectedNodes === facts.nodes;
    return {
      status: isHealthy ? "healthy" : "degraded",
      kind,
      version: facts.version,
      cluster_nodes: facts.nodes,
      connected_nodes: facts.connectedNodes,
      latency_ms: Math.round(facts.latencyMs * 1000) / 1000,
      eviction_policy: facts.evictionPolicy,
      warnings: facts.warnings,
    };
  }

  async function nodes(): Promise<DeepReply["nodes"]> {
    const listed = (await ifAvailable(context.quota.nodes())) ?? [];
    return listed.map(({ node, alive, silentMs }) => ({ node_id: nodeName(node), alive, silent_ms: silentMs }));
  }

  return {
    live: (): Reply<LiveReply> => ok({ status: "healthy", timestamp: context.timestamp() }),

    async ready(): Promise<Reply<ReadyReply>> {
      const storeAnswers = (await context.storeFacts()) !== undefined;
      const { expected, listening } = context.workers();
      const state = context.state();
      const checks: ReadyReply["checks"] = {
        redis: storeAnswers ? "ok" : "error",
        shared_memory: listening >= expected ? "ok" : "error",
        config_loaded: context.live.loadedAtMs() > 0,
      };
      const ready = storeAnswers && listening >= expected && checks.config_loaded && state !== "stopping";
      return { status: ready ? 200 : 503, body: { ready, checks, state, timestamp: context.timestamp() } };
    },

    async deep(): Promise<Reply<DeepReply>> {
      const [store, reports, listed] = await Promise.all([storeHealth(), context.reports(), nodes()]);
      const memory = workerMemory(reports);
      const error = context.live.lastError();
      const components: DeepReply["components"] = {
        nginx: {
          status: workersHealth(),
          version: context.version,
          uptime: context.uptimeSeconds(),
          workers: context.workers().listening,
        },
        redis: store,
        shared_memory: {
          status: memory.used_mb > memory.capacity_mb * FULL ? "degraded" : "healthy",
          ratelimit: memory,
        },
        metrics: { status: "healthy", registry_size: context.metricsSize() },
        config: {
          status: error === undefined ? "healthy" : "degraded",
          version: context.live.version(),
          loaded_at: new Date(context.live.loadedAtMs()).toISOString(),
          last_error: error ?? null,
        },
      };
      const level = context.level(reports);
      const all = Object.values(components).map(({ status }) => severity.indexOf(status));
      const status = severity[Math.max(...all, level > 0 ? severity.indexOf("degraded") : 0)] ?? "unhealthy";
      return {
        status: status === "unhealthy" ? 503 : 200,
        body: {
          status,
          components,
          nodes: listed,
          degradation_level: level,
          emergency_mode: context.coordinator.emergency().active,
          timestamp: context.timestamp(),
        },
      };
    },
  };
}

/** The name of a node without its epoch. */
export function nodeName(nodeInEpoch: string): string {
  return nodeInEpoch.slice(0, nodeInEpoch.lastIndexOf("@"));
}

/** The heaps of the workers, or of this process if there are none. */
export function workerMemory(reports: readonly NodeReport[]) {
  const own = getHeapStatistics();
  const heaps =
    reports.length > 0 ? reports : [{ heapUsedBytes: own.used_heap_size, heapLimitBytes: own.heap_size_limit }];
  const used = heaps.reduce((sum, { heapUsedBytes }) => sum + heapUsedBytes, 0);
  const capacity = heaps.reduce((sum, { heapLimitBytes }) => sum + heapLimitBytes, 0);
  return {
    capacity_mb: megabytes(capacity),
    used_mb: megabytes(used),
    free_mb: megabytes(Math.max(capacity - used, 0)),
  };
}
