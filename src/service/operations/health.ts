/** Health of the service: liveness, readiness, and the state of each component. */
import { getHeapStatistics } from "node:v8";
import type { NodeReport } from "../metrics/reports.js";
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { ifAvailable } from "./deadline.js";
import { type Endpoint, endpoint, ok } from "./endpoint.js";

type Deep = contract.DeepReply;
type Health = Deep["status"];

const severity: Health[] = ["healthy", "degraded", "unhealthy"];
/** A heap above this share is reported as degraded. */
const FULL = 0.9;

export function healthEndpoints(context: OperationsContext): Endpoint[] {
  function workersHealth(): Health {
    const { expected, listening } = context.workers();
    if (listening >= expected) return "healthy";
    return listening > 0 ? "degraded" : "unhealthy";
  }

  async function storeHealth(): Promise<Deep["components"]["redis"]> {
    const facts = await context.storeFacts();
    const answers = facts !== undefined;
    const isHealthy = answers && facts.warnings.length === 0 && facts.connectedNodes === facts.nodes;
    return {
      status: isHealthy ? "healthy" : answers ? "degraded" : "unhealthy",
      kind: context.store.kind,
      version: facts?.version ?? "",
      cluster_nodes: facts?.nodes ?? 0,
      connected_nodes: facts?.connectedNodes ?? 0,
      latency_ms: answers ? Math.round(facts.latencyMs * 1000) / 1000 : null,
      eviction_policy: facts?.evictionPolicy ?? "unknown",
      warnings: facts?.warnings ?? [context.storeProblem()],
    };
  }

  function overloadHealth(reports: readonly NodeReport[]): Deep["components"]["overload"] {
    const all = [{ node: context.node, overload: context.overload() }, ...reports];
    const warnings = all.flatMap(({ node, overload: { share, causes } }) =>
      share > 0 ? [`${node} refuses ${Math.ceil(share * 100)} % of new work: ${causes.join(", ")}.`] : [],
    );
    return { status: warnings.length === 0 ? "healthy" : "degraded", warnings };
  }

  async function nodes(): Promise<Deep["nodes"]> {
    const listed = (await ifAvailable(context.quota.nodes())) ?? [];
    return listed.map(({ node, alive, silentMs }) => ({ node_id: nodeName(node), alive, silent_ms: silentMs }));
  }

  return [
    endpoint("GET", "/health/live", "public", {
      summary: "Whether the process runs.",
      reply: contract.liveReply,
      handle: () => ok({ status: "healthy" as const, timestamp: context.timestamp() }),
    }),

    endpoint("GET", "/health/ready", "public", {
      summary: "Whether the service is ready: the store answers, every worker listens, the configuration is loaded.",
      reply: contract.readyReply,
      others: { 503: { summary: "Not ready; see the checks.", reply: contract.readyReply } },
      async handle() {
        const storeAnswers = (await context.storeFacts()) !== undefined;
        const workersListen = workersHealth() === "healthy";
        const config_loaded = context.live.loadedAtMs() > 0;
        const state = context.state();
        const ready = storeAnswers && workersListen && config_loaded && state !== "stopping";
        const store = storeAnswers ? ("ok" as const) : ("error" as const);
        const checks = {
          redis: context.store.kind === "embedded" ? ("not_used" as const) : store,
          store,
          shared_memory: workersListen ? ("ok" as const) : ("error" as const),
          config_loaded,
        };
        return { status: ready ? 200 : 503, body: { ready, checks, state, timestamp: context.timestamp() } };
      },
    }),

    endpoint("GET", "/health/serving", "public", {
      summary: "Whether the service can decide about requests, if only by `on_store_failure`. For readiness probes.",
      reply: contract.servingReply,
      others: { 503: { summary: "It starts, stops, or no worker listens.", reply: contract.servingReply } },
      handle() {
        const state = context.state();
        const workers = context.workers();
        const serving = state === "running" && workersHealth() !== "unhealthy";
        return { status: serving ? 200 : 503, body: { serving, state, workers, timestamp: context.timestamp() } };
      },
    }),

    endpoint("GET", "/health/deep", "address", {
      summary: "Health of each component, with warnings.",
      reply: contract.deepReply,
      others: { 503: { summary: "A required component is unhealthy.", reply: contract.deepReply } },
      async handle() {
        const [redis, reports, listed] = await Promise.all([storeHealth(), context.reports(), nodes()]);
        const heap = workerMemory(reports);
        const error = context.live.lastError();
        const components: Deep["components"] = {
          nginx: {
            status: workersHealth(),
            version: context.version,
            uptime: context.uptimeSeconds(),
            workers: context.workers().listening,
          },
          redis,
          shared_memory: {
            status: heap.used_mb > heap.capacity_mb * FULL ? "degraded" : "healthy",
            ratelimit: heap,
          },
          overload: overloadHealth(reports),
          metrics: { status: "healthy", registry_size: context.metricsSize() },
          config: {
            status: error === undefined ? "healthy" : "degraded",
            version: context.live.version(),
            loaded_at: new Date(context.live.loadedAtMs()).toISOString(),
            last_error: error ?? null,
          },
        };
        const level = context.level(reports);
        const all = Object.values(components).map((one) => severity.indexOf(one.status));
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
    }),
  ];
}

/** The name of a node without its epoch. */
export function nodeName(nodeInEpoch: string): string {
  return nodeInEpoch.slice(0, nodeInEpoch.lastIndexOf("@"));
}

/** The heaps of the workers, or of this process if there are none. */
export function workerMemory(reports: readonly NodeReport[]) {
  const own = getHeapStatistics();
  if (reports.length === 0) return memory(own.used_heap_size, own.heap_size_limit);
  return memory(
    reports.reduce((sum, { heapUsedBytes }) => sum + heapUsedBytes, 0),
    reports.reduce((sum, { heapLimitBytes }) => sum + heapLimitBytes, 0),
  );
}

export function memory(used: number, capacity: number) {
  const megabytes = (bytes: number) => Math.round((bytes / 1024 ** 2) * 1000) / 1000;
  return {
    capacity_mb: megabytes(capacity),
    used_mb: megabytes(used),
    free_mb: megabytes(Math.max(capacity - used, 0)),
  };
}
