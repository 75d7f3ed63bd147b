/** Every option there is, with its kind, its bounds and its default: the only list of options. */
import { availableParallelism, hostname } from "node:os";
import * as z from "zod";
import { MAX_TOKENS } from "../core/bucket.js";
import { MAX_BYTES, MAX_COST } from "../core/cost.js";
import {
  address,
  amount,
  clusterName,
  flag,
  headerName,
  hostName,
  identifier,
  list,
  milliseconds,
  named,
  network,
  nodeName,
  oneOf,
  routePath,
  secret,
  section,
  storeUrl,
  target,
  whole,
} from "./values.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A node must be able to report several times in its time-to-live. */
const SHORTEST_TTL_MS = 3_000;

/** Below a millionth of a token per second nothing would ever arrive. */
const rate = () => amount(0.000001, MAX_TOKENS);
const tokens = () => whole(1, MAX_TOKENS);

const cluster = section({
  id: clusterName().default("cluster-01"),
  /** L1: tokens at most, and tokens per second, of all apps together. */
  capacity: tokens().default(1_000_000),
  rate: rate().default(500_000),
  /** A node that is silent for longer counts as dead, and its tokens go back. */
  node_ttl_ms: milliseconds(SHORTEST_TTL_MS, HOUR_MS).default(10_000),
  /** Reconcile: how often, and from which drift on an app is corrected. */
  reconcile_interval_ms: milliseconds(1_000, DAY_MS).default(60_000),
  reconcile_tolerance: amount(0, 1).default(0.1),
  /** Emergency begins by itself at 95 % used, and ends below 80 % after the cool-down. */
  automatic_emergency: flag().default(true),
  emergency_cooldown_ms: milliseconds(0, DAY_MS).default(30_000),
});

const control = section({
  listen: address().default("127.0.0.1:9145"),
  /** Addresses that may call. Health checks may come from anywhere. */
  allow: list(network(), 0, 1_000).default(["127.0.0.0/8", "::1/128"]),
  /** Names besides localhost and plain addresses by which it is called; any other Host is refused. */
  hosts: list(hostName(), 0, 1_000).default([]),
  /** Empty: what needs it is off. */
  admin_token: secret().default(""),
  plane_token: secret().default(""),
});

const lease = section({
  reserve: whole(1, 1_000_000).default(1_000),
  refill_threshold: amount(0.01, 0.99).default(0.2),
  sync_interval_ms: milliseconds(10, 60_000).default(100),
  batch_threshold: whole(1, 1_000_000).default(1_000),
  /** Tokens that nobody spent from for this long go back. */
  idle_ms: milliseconds(100, HOUR_MS).default(1_000),
  /** No decision, and no call of the store, takes longer. */
  timeout_ms: milliseconds(10, 60_000).default(1_000),
});

const identity = section({
  app_header: headerName().default("X-App-Id"),
  user_header: headerName().default("X-User-Id"),
  /** Whose identity headers and X-Forwarded-* are believed. */
  trusted_hops: list(network(), 0, 1_000).default(["127.0.0.0/8", "::1/128"]),
  /** Identity headers from anyone else: as if they were not there, or 400. */
  untrusted_headers: oneOf("ignore", "reject").default("ignore"),
  api_key_header: headerName().default("X-API-Key"),
  /** Per app, the keys that stand for it. */
  api_keys: named(list(secret(), 1, 100)).prefault({}),
});

const base = () => whole(0, MAX_COST).optional();

/** A name, or a profile that differs from a named one in what it lists. */
const profile = z.preprocess(
  (value) => (typeof value === "string" ? { based_on: value } : value),
  section({
    based_on: oneOf("standard", "iops", "bandwidth").default("standard"),
    base: section({
      GET: base(),
      HEAD: base(),
      OPTIONS: base(),
      DELETE: base(),
      POST: base(),
      PUT: base(),
      PATCH: base(),
      other: base(),
    }).prefault({}),
    /** Bytes per unit of bandwidth, and tokens per started unit. */
    quantum: whole(1, MAX_BYTES - 1).optional(),
    bandwidth: whole(0, MAX_COST).optional(),
    max_cost: whole(1, MAX_COST).optional(),
  }),
);

export const app = section({
  /** Tokens per second. */
  guaranteed: rate().default(1_000),
  /** Tokens at most. Default: what two seconds bring. */
  burst: tokens().optional(),
  /** In an emergency 0 keeps all, 1 half, 2 a tenth, the others nothing. */
  priority: whole(0, 1_000).default(2),
  profile: profile.prefault("standard"),
  borrow: flag().default(false),
  /** While the store is gone: at most fail_open_tokens, the node's share, or nothing. */
  on_store_failure: oneOf("open", "local", "closed").default("open"),
});

const upstream = section({
  targets: list(target(), 1, 1_000),
  /** Connections to one target; requests beyond wait in line. */
  connections: whole(1, 100_000).default(512),
  pass_host: flag().default(true),
  /** After so many failures in a row a target is passed over for a time. */
  passive: section({
    failures: whole(1, 1_000).default(3),
    down_ms: milliseconds(1, HOUR_MS).default(10_000),
  }).prefault({}),
  /** Asks targets how they are; without a path nobody is asked. */
  active: section({
    path: routePath().optional(),
    interval_ms: milliseconds(100, HOUR_MS).default(2_000),
    timeout_ms: milliseconds(10, 60_000).default(1_000),
    healthy_after: whole(1, 100).default(2),
    unhealthy_after: whole(1, 100).default(2),
  }).prefault({}),
});

const route = section({
  path: routePath(),
  host: hostName().optional(),
  upstream: identifier(),
  /** WebSocket connections are counted in slots. */
  connections: section({
    max_per_pod: whole(1, 10_000_000).default(100),
    max_total: whole(1, 10_000_000).default(1_000),
    rate_per_second: amount(0.001, 1_000_000).default(100),
    lease_s: whole(1, 3_600).default(30),
  }).optional(),
});

const log = section({
  level: oneOf("fatal", "error", "warn", "info", "debug", "trace", "silent").default("info"),
  /** Refusals written per second and app; of the others the number. */
  refusals_per_second: whole(0, 10_000).default(5),
  /** Decisions that took longer are written, too. */
  slow_decision_ms: milliseconds(1, 60_000).default(100),
});

const timeouts = section({
  connect_ms: milliseconds(1, HOUR_MS).default(5_000),
  /** From the request's last byte to the response's head. */
  response_ms: milliseconds(1, HOUR_MS).default(60_000),
  /** Without a byte moving. */
  body_idle_ms: milliseconds(1, HOUR_MS).default(30_000),
  /** For a client to send the whole head. */
  headers_ms: milliseconds(1, HOUR_MS).default(15_000),
  /** For a client to send the whole request; 0: as long as it takes, while bytes keep coming. */
  request_ms: milliseconds(0, DAY_MS).default(0),
  keep_alive_ms: milliseconds(1, HOUR_MS).default(65_000),
  linger_ms: milliseconds(0, 60_000).default(2_000),
  /** From SIGTERM to the end: what runs may finish within it. */
  shutdown_ms: milliseconds(0, HOUR_MS).default(10_000),
});

const limits = section({
  header_bytes: whole(1_024, 1_048_576).default(16_384),
  header_count: whole(1, 2_000).default(100),
  body_bytes: whole(0, Number.MAX_SAFE_INTEGER).default(Number.MAX_SAFE_INTEGER),
});

/** By section, so that a mistake in one does not hide those of the others. */
export const sections = {
  node_id: nodeName().default(defaultNode),
  listen: address().default("0.0.0.0:8080"),
  /** Processes. Default: one per core. */
  workers: whole(1, 256).default(() => Math.min(availableParallelism(), 256)),
  store: storeUrl().default("embedded"),
  cluster: cluster.prefault({}),
  control: control.prefault({}),
  lease: lease.prefault({}),
  /** Per app and second, while the store is gone. */
  fail_open_tokens: whole(0, MAX_TOKENS).default(100),
  /** Apps that are not listed share the app "default", or are refused. */
  unknown_apps: oneOf("default", "reject").default("default"),
  identity: identity.prefault({}),
  apps: named(app).prefault({}),
  upstreams: named(upstream).prefault({}),
  routes: list(route, 0, 10_000).default([]),
  log: log.prefault({}),
  timeouts: timeouts.prefault({}),
  limits: limits.prefault({}),
};

export const schema = z.strictObject(sections);

export type Config = z.output<typeof schema>;
export type AppConfig = z.output<typeof app>;

/** Host name and process: two gateways on one machine are two nodes. */
function defaultNode(): string {
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, "-");
  return `${host.slice(0, 80) || "node"}-${process.pid}`;
}
