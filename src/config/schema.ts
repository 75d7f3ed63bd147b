/** All options with type, bounds, default and description. Types, validation and the reference page are derived from this. */
import { availableParallelism, hostname } from "node:os";
import * as z from "zod";
import { MAX_TOKENS } from "../core/bucket.js";
import { defaultLeaseOptions } from "../core/lease.js";
import { MAX_SHARDS } from "../core/shard.js";
import { requestLimits, route, timeouts, upstream } from "./sections/gateway.js";
import { identity } from "./sections/identity.js";
import { limit, onStoreFailure, priority } from "./sections/limits.js";
import { otel } from "./sections/otel.js";
import { overload } from "./sections/overload.js";
import { profile } from "./sections/profile.js";
import { rateLimitDomain } from "./sections/rate-limits.js";
import { clientTls, gatewayTls, listenerTls } from "./sections/tls.js";
import {
  address,
  amount,
  clusterName,
  DAY_MS,
  flag,
  HOUR_MS,
  hostName,
  list,
  milliseconds,
  named,
  network,
  nodeName,
  oneOf,
  optional,
  pushUrls,
  secret,
  secrets,
  section,
  storeUrl,
  whole,
} from "./values.js";

/** A node must be able to report several times within its TTL. */
const SHORTEST_TTL_MS = 3_000;

/** Buckets count in millionths of a token. */
const rate = () => amount(0.000001, MAX_TOKENS);
const tokens = () => whole(1, MAX_TOKENS);

const cluster = section({
  id: clusterName().default("cluster-01").describe("Nodes with the same id on the same store share their limits."),
  capacity: tokens().default(1_000_000).describe("L1: maximum tokens for all apps together."),
  rate: rate().default(500_000).describe("L1: tokens per second for all apps together."),
  shards: optional(whole(1, MAX_SHARDS), "16 with Redis Cluster, otherwise 1").describe(
    "Parts into which the apps are divided, each in one hash slot, so that all primaries of a Redis Cluster share the load. Recorded in the store when the first service starts. Cannot be changed for an existing `id`: see GUARANTEES.md, Shards.",
  ),
  node_ttl_ms: milliseconds(SHORTEST_TTL_MS, HOUR_MS)
    .default(10_000)
    .describe("A node that does not report for this long is considered dead, and its tokens are returned."),
  reconcile_interval_ms: milliseconds(1_000, DAY_MS)
    .default(60_000)
    .describe("Interval at which the balances of all apps are compared with the counters of the nodes."),
  reconcile_tolerance: amount(0, 1).default(0.1).describe("Relative deviation above which a balance is corrected."),
  automatic_emergency: flag()
    .default(true)
    .describe(
      "At 95 % cluster usage stop bursts, then, if the apps' own rates cannot be paid, start an emergency; end both below 80 %.",
    ),
  emergency_cooldown_ms: milliseconds(0, DAY_MS)
    .default(30_000)
    .describe("How long usage must be low before an automatic emergency ends."),
});

const planeLimits = section({
  nodes: whole(1, 100_000)
    .default(128)
    .describe(
      "Maximum nodes of one plane per minute and shard: an nginx or an Envoy is one, and a restart begins a new one. Eight times as many processes may hold connections.",
    ),
  bytes_per_second: whole(10_000, 1_000_000_000)
    .default(4_194_304)
    .describe("Maximum bytes of one plane's messages per second, each counted as at least 1,024."),
});

const control = section({
  listen: address()
    .default("127.0.0.1:9145")
    .describe("Address of the listener for health, metrics, the admin API and data planes."),
  allow: list(network(), 0, 1_000)
    .default(["127.0.0.0/8", "::1/128"])
    .describe("Addresses and networks that may call. Health checks are allowed from anywhere."),
  tls: optional(listenerTls, "plaintext").describe("TLS of the listener; see TLS.md."),
  hosts: list(hostName(), 0, 1_000).default([]).describe("Allowed Host names besides localhost and plain addresses."),
  admin_token: secret()
    .default("")
    .describe(
      "Bearer token that all administrators share. Without it, `operators` and `viewers`, the admin API is disabled.",
    ),
  plane_token: secret()
    .default("")
    .describe(
      "Bearer token of data planes, for all nodes; it gives no admin access. Without it and `planes`, their API is disabled.",
    ),
  operators: named(secrets())
    .prefault({})
    .describe(
      "Administrators by name, each with a token of their own, or two during a rotation. The audit log has their names.",
    ),
  viewers: named(secrets())
    .prefault({})
    .describe(
      "As `operators`, but they may only read: status, apps, configuration without secrets, audit log, the dashboard.",
    ),
  planes: named(secrets())
    .prefault({})
    .describe(
      "Data planes by name, each with a token of its own, or two during a rotation. A plane may act only for the nodes NAME, NAME-… and NAME.…. Without a token it needs a client certificate with its name; see TLS.md.",
    ),
  plane_limits: planeLimits
    .prefault({})
    .describe(
      "What one data plane may use of a service; further messages get 429, and the plane decides by its policy. Planes that share `plane_token` have four times as much together.",
    ),
  session_seconds: whole(1, 30 * 86_400)
    .default(28_800)
    .describe("After this time, users of the dashboard have to sign in again."),
});

/** The listener for Envoy: the rate limit service. */
const envoy = section({
  listen: optional(address(), "no listener").describe(
    "Address for Envoy: gRPC over HTTP/2, and HTTP. Callers must be listed in `control.allow` and have the credentials of a data plane. Without any, only a loopback address is allowed.",
  ),
  tls: optional(listenerTls, "plaintext").describe("TLS of the listener."),
  max_message_bytes: whole(1_024, 64 * 1_024 * 1_024)
    .default(4 * 1_024 * 1_024)
    .describe("Maximum size of a message or body in bytes."),
  max_buffered_bytes: whole(1_024, 1_024 * 1_024 * 1_024)
    .default(64 * 1_024 * 1_024)
    .describe(
      "Maximum bytes of incomplete messages and bodies per process. One connection may use a quarter. At least `max_message_bytes`, plus a quarter for overhead.",
    ),
  max_connections: whole(1, 1_000_000)
    .default(4_096)
    .describe("Maximum connections per process; further ones are closed."),
  response_headers: flag()
    .default(false)
    .describe(
      "Whether the rate limit service adds the headers of `headers` to responses. Do not combine it with `enable_x_ratelimit_headers` of Envoy's filter.",
    ),
});

const usual = defaultLeaseOptions;
const lease = section({
  reserve: whole(1, 1_000_000).default(usual.reserve).describe("L3: tokens that a node tries to hold per app."),
  refill_threshold: amount(0.01, 0.99)
    .default(usual.refillThreshold)
    .describe("Share of the lease's target below which a node requests more tokens."),
  sync_interval_ms: milliseconds(10, 60_000)
    .default(usual.syncIntervalMs)
    .describe(
      "Time between two messages of a node. While tokens of an app are scarce, its spending is reported this often.",
    ),
  batch_threshold: whole(1, 1_000_000)
    .default(usual.batchThreshold)
    .describe(
      "While tokens are plentiful, a node reports after this many spent tokens. A killed node loses at most these.",
    ),
  report_interval_ms: milliseconds(100, HOUR_MS)
    .default(usual.reportIntervalMs)
    .describe("While tokens are plentiful, a node reports at least this often."),
  idle_ms: milliseconds(100, HOUR_MS)
    .default(usual.idleMs)
    .describe("While tokens are plentiful, a lease that was not used for this long is returned with its next report."),
  timeout_ms: milliseconds(10, 60_000).default(1_000).describe("Timeout of decisions and store calls."),
});

export const app = section({
  guaranteed: rate().default(1_000).describe("L2: tokens per second."),
  burst: optional(tokens(), "twice `guaranteed`").describe("L2: maximum tokens."),
  priority: priority("its quota"),
  profile: profile
    .prefault("standard")
    .describe("How requests are priced: the name of a profile, or a section with changes to one."),
  borrow: flag().default(false).describe("Whether the app may borrow idle tokens of the cluster."),
  dry_run: flag()
    .default(false)
    .describe("The app's own limit decides as usual, but refuses nothing. Limits of `limits` have their own option."),
  on_store_failure: onStoreFailure("the app's whole limit"),
  fail_open_tokens: optional(whole(0, MAX_TOKENS), "the global `fail_open_tokens`").describe(
    "With `on_store_failure: open`, tokens per second of one node without the store, instead of the app's own limit.",
  ),
  unknown_length: oneOf("cut", "delay", "charge")
    .default("delay")
    .describe(
      "Bodies without a Content-Length and WebSockets, if there are no tokens for their bytes: abort them; pause them, and abort them after `timeouts.body_idle_ms` without tokens; or pass everything and charge it at the end. See OPERATIONS.md for what each plane does.",
    ),
});

const headers = section({
  x_ratelimit: flag().default(true).describe("X-RateLimit-Cost, X-RateLimit-Limit and X-RateLimit-Remaining."),
  ietf: flag().default(true).describe("RateLimit and RateLimit-Policy, as in the IETF draft."),
});

const metrics = section({
  enabled: flag().default(true).describe("Whether `/metrics` is available."),
  app_labels: whole(0, 100_000)
    .default(1_000)
    .describe("Number of apps with their own label; the others share `other`."),
  push: pushUrls()
    .default([])
    .describe(
      "StatsD or Graphite servers that get the metrics: `statsd://host:8125` (UDP), `graphite://host:2003` (TCP); see METRICS.md.",
    ),
  push_interval_ms: milliseconds(1_000, HOUR_MS).default(10_000).describe("Time between two pushes."),
});

const log = section({
  level: oneOf("fatal", "error", "warn", "info", "debug", "trace", "silent")
    .default("info")
    .describe("Minimum level of log lines."),
  refusals_per_second: whole(0, 10_000)
    .default(5)
    .describe("Maximum refusals logged per app per second; the rest are logged as a count."),
  slow_decision_ms: milliseconds(1, 60_000).default(100).describe("Decisions that take longer are logged."),
});

/** By section: each is validated on its own, so that an error in one does not hide errors in others. */
export const sections = {
  node_id: nodeName()
    .default(defaultNode)
    .meta({ otherwise: "host name and process id" })
    .describe("The name of this service within the cluster."),
  listen: address().default("0.0.0.0:8080").describe("Address of the gateway."),
  tls: optional(gatewayTls, "plaintext").describe(
    "TLS of the gateway's listener. Changed files are used for new connections; invalid ones are logged and ignored.",
  ),
  workers: whole(1, 256)
    .default(() => Math.min(availableParallelism(), 256))
    .meta({ otherwise: "one per core" })
    .describe("Number of gateway processes."),
  store: storeUrl()
    .default("embedded")
    .describe("URL of the store. `embedded`: in this process, for a single service; its state is lost at a restart."),
  store_tls: optional(clientTls("the host of the URL"), "the CAs of Node.js").describe(
    "TLS of connections to the store, for a `rediss` URL.",
  ),
  store_pool_size: whole(1, 100_000)
    .default(512)
    .describe("Maximum concurrent calls per Redis server; they share one connection."),
  cluster: cluster.prefault({}).describe("Limits and options that all nodes share."),
  control: control.prefault({}).describe("The listener for operators and data planes."),
  envoy: envoy.prefault({}).describe("The listener for Envoy, in each gateway process."),
  lease: lease.prefault({}).describe("Tokens that a node holds in advance."),
  fail_open_tokens: optional(whole(0, MAX_TOKENS), "each app's own limit").describe(
    "Default of `fail_open_tokens` of apps, and for descriptor limits.",
  ),
  unknown_apps: oneOf("default", "reject")
    .default("default")
    .describe("Apps that are not configured share the app `default`, or are refused."),
  identity: identity.prefault({}).describe("How the app of a request is identified."),
  apps: named(app).prefault({}).describe("Apps and their limits, by id."),
  limits: list(limit, 0, 1_000)
    .default([])
    .describe("Limits per user, address, route, header and others, in addition to those of the apps; see LIMITS.md."),
  rate_limits: list(rateLimitDomain, 0, 1_000)
    .default([])
    .describe("Descriptor limits for Envoy's rate limit service; see RATE_LIMITS.md."),
  rate_limit_values: whole(1, 1_000_000)
    .default(10_000)
    .describe(
      "Maximum number of values with their own bucket, per process, for `limits` and `rate_limits`. Further values share buckets, 256 per limit, by the network of the client; those of `rate_limits` one per rule.",
    ),
  upstreams: named(upstream).prefault({}).describe("Backends of the gateway, by name."),
  routes: list(route, 0, 10_000).default([]).describe("Routes of the gateway. Without routes there is no gateway."),
  headers: headers
    .prefault({})
    .describe(
      "Rate limit headers of responses. Refusals have Retry-After and dry runs X-RateLimit-Dry-Run in any case.",
    ),
  metrics: metrics.prefault({}).describe("Metrics for Prometheus, StatsD and Graphite."),
  otel: otel.prefault({}).describe("Export of metrics and traces to OpenTelemetry; see METRICS.md."),
  log: log.prefault({}).describe("The log: JSON lines on stdout."),
  timeouts: timeouts.prefault({}).describe("Timeouts of the gateway."),
  request_limits: requestLimits.prefault({}).describe("Size, paths and number of requests and client connections."),
  overload: overload
    .prefault({})
    .describe(
      "When a process refuses new work with 503 `overloaded`, until it is below 80 % of the limit again. Health checks, metrics, the admin API, renewals and releases are always served.",
    ),
};

export const schema = z.strictObject(sections);

export type Config = z.output<typeof schema>;
export type AppConfig = z.output<typeof app>;

/** With the process id, because two gateways on one machine are two nodes. */
function defaultNode(): string {
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, "-");
  return `${host.slice(0, 80) || "node"}-${process.pid}`;
}
