/** What the control listener tells of the service: health, and its status at a glance. */
import * as z from "zod";
import { count, megabytes, timestamp } from "./fields.js";

export const liveReply = z.strictObject({ status: z.literal("healthy"), timestamp: timestamp() });

export const readyReply = z.strictObject({
  ready: z.boolean(),
  checks: z.strictObject({
    redis: z.enum(["ok", "error"]).describe("Whether the store answers, whatever kind it is."),
    shared_memory: z.enum(["ok", "error"]).describe("Whether every worker answers."),
    config_loaded: z.boolean(),
  }),
  state: z.enum(["starting", "running", "stopping"]),
  timestamp: timestamp(),
});

const health = () => z.enum(["healthy", "degraded", "unhealthy"]);

export const deepReply = z.strictObject({
  status: health(),
  components: z.strictObject({
    nginx: z
      .strictObject({ status: health(), version: z.string(), uptime: z.number(), workers: count() })
      .describe("The data plane of this process, which is the Node gateway; the name is the contract's."),
    redis: z.strictObject({
      status: health(),
      kind: z.string(),
      version: z.string(),
      cluster_nodes: count(),
      connected_nodes: count(),
      latency_ms: z.number().nullable(),
      eviction_policy: z.string(),
      warnings: z.array(z.string()),
    }),
    shared_memory: z.strictObject({
      status: health(),
      ratelimit: z.strictObject({ capacity_mb: z.number(), used_mb: z.number(), free_mb: z.number() }),
    }),
    metrics: z.strictObject({ status: health(), registry_size: count() }),
    config: z.strictObject({
      status: health(),
      version: z.string(),
      loaded_at: z.iso.datetime(),
      last_error: z.string().nullable().describe("Why the last reload was refused, if it was."),
    }),
  }),
  nodes: z
    .array(z.strictObject({ node_id: z.string(), alive: z.boolean(), silent_ms: count() }))
    .describe("The data planes and workers of the cluster, as the store knows them."),
  degradation_level: count(),
  emergency_mode: z.boolean(),
  timestamp: timestamp(),
});

export const statusReply = z.strictObject({
  node_id: z.string(),
  version: z.string(),
  status: z.enum(["running", "starting", "stopping"]),
  mode: z.enum(["normal", "degraded", "emergency"]),
  degradation_level: count().describe("The highest of the workers' levels."),
  degradation_pinned_until: z.iso.datetime().nullable(),
  emergency_mode: z.boolean(),
  emergency: z.strictObject({
    source: z.string().describe("Who began it: operator, automatic, or empty."),
    seconds_left: z.number().describe("0: until it is turned off, or there is none."),
  }),
  config_version: z.string(),
  uptime_seconds: z.number(),
  workers: count(),
  connections: count().describe("Open connections of clients."),
  live_nodes: count(),
  shared_memory: z
    .strictObject({ ratelimit: megabytes(), config_cache: megabytes(), metrics: megabytes() })
    .describe(
      "ratelimit: the heaps of the workers. config_cache: the configuration. metrics: the heap of the primary.",
    ),
  redis: z.strictObject({
    cluster_nodes: count(),
    connected_nodes: count(),
    pool_size: count().describe(
      "Calls that may be under way at a time; they share one connection per server. 0: none wait.",
    ),
    active_connections: count().describe("Calls under way."),
    idle_connections: count().describe("Room for more."),
  }),
  statistics: z.strictObject({
    total_requests: count(),
    allowed_requests: count(),
    rejected_requests: count(),
    rejection_rate: z.number(),
    avg_latency_ms: z.number().describe("Of decisions."),
    p99_latency_ms: z.number(),
    l3_hit_ratio: z.number().describe("The part of decisions that were made without the store."),
    dry_run_rejected: count().describe("Let pass, but only because their apps are on a dry run."),
    syncs: count(),
    failed_syncs: count(),
  }),
  timestamp: timestamp(),
});

export type LiveReply = z.output<typeof liveReply>;
export type ReadyReply = z.output<typeof readyReply>;
export type DeepReply = z.output<typeof deepReply>;
export type StatusReply = z.output<typeof statusReply>;
