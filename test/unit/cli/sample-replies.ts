/** Sample replies of a control listener. One test checks them against the contract. */
import type {
  AppReply,
  AppsReply,
  BorrowReply,
  ConnectionsReply,
  DeepReply,
  DegradationReply,
  DegradationState,
  EmergencyReply,
  EmergencyStateReply,
  LayerReply,
  LiveReply,
  ReadyReply,
  ReconcileReply,
  Refusal,
  ReloadReply,
  RepayReply,
  ServingReply,
  StatusReply,
} from "../../../src/service/operations/contract/contract.js";

const timestamp = "2025-01-02T03:04:05.000Z";
const tenSecondsBefore = "2025-01-02T03:03:55.000Z";
const fiveMinutesLater = "2025-01-02T03:09:05.000Z";

export const live: LiveReply = { status: "healthy", timestamp };

export const ready: ReadyReply = {
  ready: true,
  checks: { redis: "ok", store: "ok", shared_memory: "ok", config_loaded: true },
  state: "running",
  timestamp,
};

export const serving: ServingReply = {
  serving: true,
  state: "running",
  workers: { expected: 2, listening: 1 },
  timestamp,
};

export const notReady: ReadyReply = {
  ...ready,
  ready: false,
  checks: { ...ready.checks, redis: "error", store: "error" },
};

export const deep: DeepReply = {
  status: "healthy",
  components: {
    nginx: { status: "healthy", version: "0.1.0", uptime: 7384, workers: 2 },
    redis: {
      status: "healthy",
      kind: "redis",
      version: "7.0.15",
      cluster_nodes: 1,
      connected_nodes: 1,
      latency_ms: 0.42,
      eviction_policy: "noeviction",
      warnings: [],
    },
    shared_memory: { status: "healthy", ratelimit: { capacity_mb: 4288, used_mb: 41.5, free_mb: 4246.5 } },
    overload: { status: "healthy", warnings: [] },
    metrics: { status: "healthy", registry_size: 42 },
    config: { status: "healthy", version: "3f9a1c2b", loaded_at: tenSecondsBefore, last_error: null },
  },
  nodes: [
    { node_id: "gw-01-w1", alive: true, silent_ms: 80 },
    { node_id: "gw-02-w1", alive: false, silent_ms: 65_000 },
  ],
  degradation_level: 0,
  emergency_mode: false,
  timestamp,
};

export const status: StatusReply = {
  node_id: "gw-01",
  version: "0.1.0",
  status: "running",
  mode: "normal",
  degradation_level: 0,
  degradation_pinned_until: null,
  emergency_mode: false,
  emergency: { bursts_stopped: false, source: "", reason: "", operator: "", seconds_left: 0 },
  config_version: "3f9a1c2b",
  uptime_seconds: 7384,
  workers: 2,
  connections: 213,
  live_nodes: 4,
  nodes: [
    { node_id: "gw-01-w1@1750000000000", alive: true, silent_ms: 80, held: 990 },
    { node_id: "gw-01-w2@1750000000000", alive: true, silent_ms: 20, held: 0 },
    { node_id: "gw-02-w1@1750000000000", alive: false, silent_ms: 65_000, held: 1_000 },
  ],
  shards: [],
  recalls: [],
  shared_memory: {
    ratelimit: { used_mb: 41.5, free_mb: 4246.5 },
    config_cache: { used_mb: 0.1, free_mb: 0 },
    metrics: { used_mb: 20.2, free_mb: 2000 },
  },
  redis: { cluster_nodes: 1, connected_nodes: 1, pool_size: 512, active_connections: 2, idle_connections: 510 },
  statistics: {
    total_requests: 1_000_000,
    allowed_requests: 990_000,
    rejected_requests: 10_000,
    rejection_rate: 0.01,
    avg_latency_ms: 0.012,
    p99_latency_ms: 0.5,
    l3_hit_ratio: 0.987,
    dry_run_rejected: 0,
    syncs: 71_231,
    failed_syncs: 3,
  },
  timestamp,
};

export const refusal: Refusal = {
  timestamp: tenSecondsBefore,
  node_id: "gw-01-w1",
  code: "quota_exhausted",
  layer: "L2",
  method: "PUT",
  cost: 21,
  balance: 3,
  remaining: 4,
  limit: 20_000,
  retry_after_ms: 1_700,
  source: "remote",
  dry_run: false,
  explanation: "It cost 21 tokens and the app's own bucket had 4 of 20000.",
};

type AppNumbers = AppsReply["apps"][number];

export const appNumbers: AppNumbers = {
  app_id: "video-service",
  guaranteed: 10_000,
  burst: 20_000,
  priority: 1,
  dry_run: false,
  l2_tokens: 12_345.6,
  debt: 0,
  requests: 900_000,
  allowed: 890_000,
  rejected: 10_000,
  dry_run_rejected: 0,
  last_refusal: refusal,
};

export function appNamed(app_id: string, numbers: Partial<AppNumbers> = {}): AppNumbers {
  return { ...appNumbers, app_id, rejected: 0, requests: 0, allowed: 0, last_refusal: null, ...numbers };
}

export const apps: AppsReply = {
  apps: [appNumbers, appNamed("batch", { requests: 100_000, allowed: 100_000, debt: 60, priority: 3, l2_tokens: 2 })],
  total: 2,
  descriptor_limits: [
    {
      ...{ limit: "rate-limit:api/user", rate: "10/s", burst: 10, dry_run: false },
      ...{ requests: 120, allowed: 100, rejected: 20, dry_run_rejected: 0 },
    },
  ],
  cluster: { tokens: 812_000, capacity: 1_000_000, rate: 500_000 },
  timestamp,
};

export const app: AppReply = {
  app_id: "video-service",
  config: {
    guaranteed: 10_000,
    burst: 20_000,
    priority: 1,
    borrow: true,
    on_store_failure: "open",
    dry_run: false,
  },
  layers: {
    l1: { tokens: 812_000, capacity: 1_000_000, rate: 500_000 },
    l2: { tokens: 4, debt: 120, granted: 1_900_000, spent: 1_890_000, returned: 9_000 },
    l3: {
      held: 1_000,
      recalling: false,
      leases: [
        { node_id: "gw-01-w1", alive: true, held: 990, granted: 1_000_000, spent: 999_000, returned: 10, balance: 3 },
        {
          node_id: "gw-02-w1",
          alive: false,
          held: 10,
          granted: 900_000,
          spent: 891_000,
          returned: 8_990,
          balance: null,
        },
      ],
    },
  },
  statistics: {
    requests: 900_000,
    allowed: 890_000,
    rejected: 10_000,
    dry_run_rejected: 0,
    l3_hit_ratio: 0.987,
    refusals: { cluster_exhausted: 17, quota_exhausted: 9_983 },
    reasons: [
      { code: "quota_exhausted", layer: "L2", limit: null, dry_run: false, total: 9_983 },
      { code: "cluster_exhausted", layer: "L1", limit: null, dry_run: false, total: 17 },
    ],
    cost_histogram: [],
  },
  why: "Its own bucket has 4 of 20000 tokens and refills 10000 a second, which is less than its requests cost.",
  last_refusals: [refusal, { ...refusal, code: "emergency_blocked", layer: "emergency", retry_after_ms: 0 }],
  timestamp,
};

export const connections: ConnectionsReply = {
  total: 3,
  rejected: 8,
  routes: [{ route: "/ws/", connections: 3, limit: 1_000, max_per_app: 0, max_per_client: 2, rejected: 8 }],
  pods: [
    { route: "/ws/", upstream: "sockets", pod: "10.0.0.1:9101", connections: 2, limit: 2 },
    { route: "/ws/", upstream: "sockets", pod: "10.0.0.2:9101", connections: 1, limit: 2 },
  ],
  unavailable: [],
  timestamp,
};

export const emergencyOff: EmergencyStateReply = {
  emergency_mode: false,
  bursts_stopped: false,
  source: "",
  reason: "",
  operator: "",
  started_at: null,
  expires_at: null,
  affected_apps: [],
  timestamp,
};

export const emergencyOn: EmergencyStateReply = {
  emergency_mode: true,
  bursts_stopped: false,
  source: "automatic",
  reason: "",
  operator: "",
  started_at: tenSecondsBefore,
  expires_at: null,
  affected_apps: ["video-service", "batch"],
  timestamp,
};

export const emergencyOrdered: EmergencyReply = {
  status: "emergency_activated",
  emergency_mode: true,
  bursts_stopped: false,
  reason: "database at its limit",
  operator: "alex",
  started_at: timestamp,
  expires_at: fiveMinutesLater,
  affected_apps: ["video-service", "batch"],
  timestamp,
};

export const degradation: DegradationState = {
  level: 2,
  pinned_level: 2,
  pinned_until: fiveMinutesLater,
  reason: "Redis is being upgraded",
  operator: "alex",
  service_level: 0,
  workers: [{ node_id: "gw-01-w1", level: 2, store_latency_ms: 132.5, store_calls: 41, store_errors: 0 }],
  slow_ms: 10,
  very_slow_ms: 100,
  timestamp,
};

export const degradationSet: DegradationReply = {
  status: "degradation_level_set",
  previous_level: 0,
  current_level: 2,
  reason: "Redis is being upgraded",
  expires_at: fiveMinutesLater,
  timestamp,
};

export const reconciled: ReconcileReply = {
  status: "reconciled",
  app_id: "video-service",
  apps: 1,
  corrections_made: 1,
  drift_before: 0.125,
  drift_after: 0,
  recovered_tokens: 990,
  details: { l2_expected_tokens: 20_000, l2_actual_tokens: 17_500, correction: 2_500 },
  timestamp,
};

export const reloaded: ReloadReply = {
  status: "reloaded",
  timestamp,
  apps_affected: 5,
  limits_affected: 1,
  config_version: "77aa01fe",
  previous_version: "3f9a1c2b",
  restart_needed: ["listen"],
};

export const layer: LayerReply = {
  revision: 7,
  config: { apps: { "video-service": { guaranteed: 5_000 } } },
  active: { revision: 7, config: { apps: { "video-service": { guaranteed: 5_000 } } } },
  config_version: "77aa01fe",
  timestamp,
};

export const borrowed: BorrowReply = {
  status: "borrowed",
  app_id: "video-service",
  code: "ok",
  borrowed: 500,
  debt: 600,
  remaining: 504,
  borrowable: 4_500,
  explanation: "Lent.",
  timestamp,
};

export const repaid: RepayReply = {
  status: "repaid",
  app_id: "video-service",
  code: "ok",
  repaid: 200,
  debt: 400,
  remaining: 304,
  timestamp,
};
