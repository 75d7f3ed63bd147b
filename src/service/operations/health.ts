/** How the service is: alive, ready for work, and part by part. */
import { getHeapStatistics } from "node:v8";
import type { DeepReply, LiveReply, ReadyReply } from "../control/contract/contract.js";
import { answer, type Reply } from "../control/endpoint.js";
import type { NodeReport } from "../metrics/reports.js";
import { ifAnswered } from "./deadline.js";
import type { Knowledge } from "./knowledge.js";

type Health = DeepReply["status"];

const ORDER: Health[] = ["healthy", "degraded", "unhealthy"];
/** A heap that is fuller than this is about to be in trouble. */
const FULL = 0.9;
const MEGABYTE = 1024 * 1024;

export const megabytes = (bytes: number) => Math.round((bytes / MEGABYTE) * 1000) / 1000;

export function healthOperations(know: Knowledge) {
  const { deps } = know;

  /** Every worker that there should be listens. */
  function workersHealth(): Health {
    const { expected, listening } = deps.workers();
    if (listening >= expected) return "healthy";
    return listening > 0 ? "degraded" : "unhealthy";
  }

  async function redis(): Promise<DeepReply["components"]["redis"]> {
    const facts = await know.store();
    const kind = deps.store.kind;
    if (facts === undefined) {
      const unknown = { version: "", cluster_nodes: 0, connected_nodes: 0, latency_ms: null };
      const warnings = ["The store does not answer."];
      return { status: "unhealthy", kind, ...unknown, eviction_policy: "unknown", warnings };
    }
    const isWell = facts.warnings.length === 0 && facts.connectedNodes === facts.nodes;
    return {
      status: isWell ? "healthy" : "degraded",
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
    const listed = (await ifAnswered(deps.quota.nodes())) ?? [];
    return listed.map(({ node, alive, silentMs }) => ({ node_id: nodeOf(node), alive, silent_ms: silentMs }));
  }

  return {
    live: (): Reply<LiveReply> => answer({ status: "healthy", timestamp: know.timestamp() }),

    async ready(): Promise<Reply<ReadyReply>> {
      const storeAnswers = (await know.store()) !== undefined;
      const { expected, listening } = deps.workers();
      const state = deps.state();
      const checks: ReadyReply["checks"] = {
        redis: storeAnswers ? "ok" : "error",
        shared_memory: listening >= expected ? "ok" : "error",
        config_loaded: deps.live.loadedAtMs() > 0,
      };
      const works = storeAnswers && listening >= expected && checks.config_loaded;
      const ready = works && state !== "stopping";
      return { status: ready ? 200 : 503, body: { ready, checks, state, timestamp: know.timestamp() } };
    },

    async deep(): Promise<Reply<DeepReply>> {
      const [store, reports, listed] = await Promise.all([redis(), know.reports(), nodes()]);
      const memory = memoryOf(reports);
      const error = deps.live.lastError();
      const components: DeepReply["components"] = {
        nginx: {
          ...{ status: workersHealth(), version: deps.version, uptime: know.uptimeSeconds() },
          workers: deps.workers().listening,
        },
        redis: store,
        shared_memory: {
          status: memory.used_mb > memory.capacity_mb * FULL ? "degraded" : "healthy",
          ratelimit: memory,
        },
        metrics: { status: "healthy", registry_size: deps.metricsSize() },
        config: {
          status: error === undefined ? "healthy" : "degraded",
          version: deps.live.version(),
          loaded_at: new Date(deps.live.loadedAtMs()).toISOString(),
          last_error: error ?? null,
        },
      };
      const level = know.level(reports);
      const all = Object.values(components).map(({ status }) => ORDER.indexOf(status));
      const status = ORDER[Math.max(...all, level > 0 ? ORDER.indexOf("degraded") : 0)] ?? "unhealthy";
      const body: DeepReply = {
        ...{ status, components, nodes: listed, degradation_level: level },
        emergency_mode: deps.coordinator.emergency().active,
        timestamp: know.timestamp(),
      };
      return { status: status === "unhealthy" ? 503 : 200, body };
    },
  };
}

/** A node as people know it, without the life that it is in. */
export function nodeOf(nodeInEpoch: string): string {
  return nodeInEpoch.slice(0, nodeInEpoch.lastIndexOf("@"));
}

/** The heaps of the workers; where there are none, this process's own. */
export function memoryOf(reports: readonly NodeReport[]): { capacity_mb: number; used_mb: number; free_mb: number } {
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
