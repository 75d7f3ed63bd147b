/** The replies described in the seeds, and a comparison with actual replies. */

const WHEN = "2026-01-02T03:04:05Z";

/** The fields that are missing or have another type than in the example. Further fields are allowed. */
export function differences(value: unknown, example: unknown, place = "reply"): string[] {
  if (typeof example !== "object" || example === null) {
    return typeof value === typeof example ? [] : [`${place}: ${typeof value} instead of ${typeof example}`];
  }
  if (Array.isArray(example)) {
    if (!Array.isArray(value)) return [`${place}: no list`];
    return value.flatMap((item, i) => differences(item, example[0], `${place}[${i}]`));
  }
  return Object.entries(example).flatMap(([name, inner]) => {
    if (!Object.hasOwn(Object(value), name)) return [`${place}.${name} is missing`];
    return differences((value as Record<string, unknown>)[name], inner, `${place}.${name}`);
  });
}

const megabytes = { used_mb: 1.5, free_mb: 2.5 };

/** Our values in the format of the seeds. The reload follows a change, otherwise nothing would be reloaded. */
export const seedExamples: { call: string; body?: unknown; reply: unknown }[] = [
  { call: "GET /health/live", reply: { status: "healthy", timestamp: WHEN } },
  {
    call: "GET /health/ready",
    reply: { ready: true, checks: { redis: "ok", shared_memory: "ok", config_loaded: true }, timestamp: WHEN },
  },
  {
    call: "GET /health/deep",
    reply: {
      status: "healthy",
      components: {
        nginx: { status: "healthy", version: "1.2.3", uptime: 12.5 },
        redis: { status: "healthy", cluster_nodes: 3, connected_nodes: 3, latency_ms: 0.5 },
        shared_memory: { status: "healthy", ratelimit: { capacity_mb: 100, ...megabytes } },
        metrics: { status: "healthy", registry_size: 7 },
      },
      degradation_level: 0,
      emergency_mode: false,
      timestamp: WHEN,
    },
  },
  {
    call: "GET /admin/ratelimit/status",
    reply: {
      node_id: "gw",
      version: "1.2.3",
      status: "running",
      mode: "normal",
      degradation_level: 0,
      emergency_mode: false,
      uptime_seconds: 5.5,
      workers: 1,
      connections: 7,
      shared_memory: { ratelimit: megabytes, config_cache: megabytes, metrics: megabytes },
      redis: { cluster_nodes: 1, connected_nodes: 1, pool_size: 9, active_connections: 4, idle_connections: 5 },
      statistics: {
        total_requests: 9,
        allowed_requests: 7,
        rejected_requests: 2,
        rejection_rate: 0.22,
        avg_latency_ms: 0.1,
        p99_latency_ms: 0.9,
      },
      timestamp: WHEN,
    },
  },
  {
    call: "POST /admin/ratelimit/reload",
    body: { source: "redis", force: false },
    reply: { status: "reloaded", timestamp: WHEN, apps_affected: 2, config_version: "v2" },
  },
  {
    call: "POST /admin/ratelimit/degradation",
    body: { level: 2, reason: "the store is slow", duration_seconds: 60 },
    reply: {
      status: "degradation_level_set",
      previous_level: 0,
      current_level: 2,
      reason: "the store is slow",
      expires_at: WHEN,
      timestamp: WHEN,
    },
  },
  {
    call: "POST /admin/ratelimit/emergency",
    body: { action: "activate", reason: "a test", operator: "alice", duration_seconds: 60 },
    reply: {
      status: "emergency_activated",
      emergency_mode: true,
      reason: "a test",
      operator: "alice",
      started_at: WHEN,
      expires_at: WHEN,
      affected_apps: ["video"],
      timestamp: WHEN,
    },
  },
  {
    call: "POST /admin/ratelimit/reconcile",
    body: { app_id: "video", force: true },
    reply: {
      status: "reconciled",
      app_id: "video",
      corrections_made: 1,
      drift_before: 0.2,
      drift_after: 0.1,
      details: { l2_expected_tokens: 10, l2_actual_tokens: 9, correction: 1 },
      timestamp: WHEN,
    },
  },
];
