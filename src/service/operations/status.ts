/** The service at a glance. */
import { getHeapStatistics } from "node:v8";
import type { StatusReply } from "../control/contract/contract.js";
import { answer, type Reply } from "../control/endpoint.js";
import { ifAnswered } from "./deadline.js";
import { sourceName } from "./emergency.js";
import { megabytes, memoryOf } from "./health.js";
import type { Knowledge } from "./knowledge.js";
import { statistics } from "./statistics.js";

/** As large as a configuration may be: see config/load.ts. */
const MOST_CONFIG_BYTES = 16 * 1024 * 1024;

const noCalls = { callsInFlight: 0, mostCallsInFlight: 0 };

export function statusOperation(know: Knowledge) {
  const { deps } = know;

  function memory(ratelimit: { used_mb: number; free_mb: number }): StatusReply["shared_memory"] {
    const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
    const config = know.configBytes();
    return {
      ratelimit: { used_mb: ratelimit.used_mb, free_mb: ratelimit.free_mb },
      config_cache: { used_mb: megabytes(config), free_mb: megabytes(Math.max(MOST_CONFIG_BYTES - config, 0)) },
      metrics: { used_mb: megabytes(used), free_mb: megabytes(Math.max(limit - used, 0)) },
    };
  }

  return async (): Promise<Reply<StatusReply>> => {
    const [reports, facts, nodes] = await Promise.all([know.reports(), know.store(), ifAnswered(deps.quota.nodes())]);
    const level = know.level(reports);
    const emergency = deps.coordinator.emergency();
    const pinned = deps.pin.current();
    const { callsInFlight: underWay, mostCallsInFlight: poolSize } = facts ?? noCalls;
    return answer({
      ...{ node_id: deps.node, version: deps.version, status: deps.state() },
      mode: emergency.active ? "emergency" : level > 0 ? "degraded" : "normal",
      degradation_level: level,
      degradation_pinned_until: pinned === undefined ? null : new Date(pinned.untilMs).toISOString(),
      emergency_mode: emergency.active,
      emergency: { source: sourceName(emergency.source), seconds_left: Math.ceil(emergency.leftMs / 1000) },
      config_version: deps.live.version(),
      uptime_seconds: know.uptimeSeconds(),
      workers: deps.workers().listening,
      connections: reports.reduce((sum, { connections }) => sum + connections, 0),
      live_nodes:
        nodes?.filter(({ alive }) => alive).length ?? Math.max(0, ...reports.map(({ liveNodes }) => liveNodes)),
      shared_memory: memory(memoryOf(reports)),
      redis: {
        ...{ cluster_nodes: facts?.nodes ?? 0, connected_nodes: facts?.connectedNodes ?? 0, pool_size: poolSize },
        ...{ active_connections: underWay, idle_connections: Math.max(poolSize - underWay, 0) },
      },
      statistics: statistics(reports),
      timestamp: know.timestamp(),
    });
  };
}
