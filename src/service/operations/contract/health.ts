/** Schemas of health and status. */
import * as z from "zod";
import { count, megabytes, reply } from "./fields.js";

export const liveReply = reply({ status: z.literal("healthy") });

export const readyReply = reply({
  ready: z.boolean(),
  checks: z.strictObject({
    redis: z.enum(["ok", "error", "not_used"]).describe("Whether Redis answers; not_used with the embedded store."),
    store: z.enum(["ok", "error"]).describe("Whether the store answers, of any kind."),
    shared_memory: z.enum(["ok", "error"]).describe("Whether every worker listens."),
    config_loaded: z.boolean(),
  }),
  state: z.enum(["starting", "running", "stopping"]),
});

export const servingReply = reply({
  serving: z.boolean(),
  state: z.enum(["starting", "running", "stopping"]),
  workers: z.strictObject({ expected: count(), listening: count().describe("Those that listen and respond.") }),
});

const health = () => z.enum(["healthy", "degraded", "unhealthy"]);

export const deepReply = reply({
  status: health(),
  components: z.strictObject({
    nginx: z
      .strictObject({ status: health(), version: z.string(), uptime: z.number(), workers: count() })
      .describe("The Node gateway of this process; the name is fixed by the API contract."),
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
    overload: z
      .strictObject({ status: health(), warnings: z.array(z.string()) })
      .describe("Processes that refuse new work because they are overloaded."),
    metrics: z.strictObject({ status: health(), registry_size: count() }),
    config: z.strictObject({
      status: health(),
      version: z.string(),
      loaded_at: z.iso.datetime(),
      last_error: z.string().nullable().describe("Why the last reload was rejected, if it was."),
    }),
  }),
  nodes: z
    .array(z.strictObject({ node_id: z.string(), alive: z.boolean(), silent_ms: count() }))
    .describe("The data planes and workers of the cluster according to the store."),
  degradation_level: count(),
  emergency_mode: z.boolean(),
});

export const statusReply = reply({
  node_id: z.string(),
  version: z.string(),
  status: z.enum(["running", "starting", "stopping"]),
  mode: z.enum(["normal", "degraded", "emergency"]),
  degradation_level: count().describe("The highest level of all workers."),
  degradation_pinned_until: z.iso.datetime().nullable(),
  emergency_mode: z.boolean(),
  emergency: z.strictObject({
    bursts_stopped: z.boolean().describe("No bursts and no borrowing, but all apps keep their own rates."),
    source: z.string().describe("What started it: operator, automatic, or empty."),
    reason: z.string().describe("Why; empty unless an operator started it."),
    operator: z.string().describe("Who started it; empty unless an operator did."),
    seconds_left: z.number().describe("0: until it is turned off, or no emergency."),
  }),
  config_version: z.string(),
  uptime_seconds: z.number(),
  workers: count(),
  connections: count().describe(
    "Open TCP connections of clients. `GET /admin/ratelimit/connections` counts those that hold a slot.",
  ),
  live_nodes: count(),
  nodes: z
    .array(
      z.strictObject({
        node_id: z.string().describe("The node and its epoch."),
        alive: z.boolean(),
        silent_ms: z.number(),
        held: z.number().describe("Tokens on its leases according to the store, over all apps."),
      }),
    )
    .describe("Empty if the store does not answer."),
  shards: z
    .array(
      z.strictObject({
        shard: count(),
        available: z.boolean().describe("It replied in time. Otherwise the numbers below are 0."),
        capacity: z.number().describe("Its share of the cluster's capacity, in tokens."),
        rate: z.number().describe("Its share of the cluster's rate, in tokens per second."),
        tokens: z.number().describe("Tokens in its part of the cluster's bucket."),
        held: z.number().describe("Tokens of its apps on leases of nodes."),
      }),
    )
    .describe("Empty with one shard."),
  recalls: z.array(z.string()).describe('Apps whose unused tokens nodes are asked to return; "*": all apps.'),
  shared_memory: z
    .strictObject({ ratelimit: megabytes(), config_cache: megabytes(), metrics: megabytes() })
    .describe(
      "ratelimit: the heaps of the workers. config_cache: the configuration. metrics: the heap of the primary.",
    ),
  redis: z.strictObject({
    cluster_nodes: count(),
    connected_nodes: count(),
    pool_size: count().describe("Maximum concurrent calls; they share one connection per server. 0: unlimited."),
    active_connections: count().describe("Calls in flight."),
    idle_connections: count().describe("Remaining concurrent calls."),
  }),
  statistics: z.strictObject({
    total_requests: count(),
    allowed_requests: count(),
    rejected_requests: count(),
    rejection_rate: z.number(),
    avg_latency_ms: z.number().describe("Of decisions."),
    p99_latency_ms: z.number(),
    l3_hit_ratio: z.number().describe("Share of decisions made without a sync."),
    dry_run_rejected: count().describe("Admitted only because of a dry run."),
    syncs: count(),
    failed_syncs: count(),
  }),
});

export type LiveReply = z.output<typeof liveReply>;
export type ReadyReply = z.output<typeof readyReply>;
export type ServingReply = z.output<typeof servingReply>;
export type DeepReply = z.output<typeof deepReply>;
export type StatusReply = z.output<typeof statusReply>;
