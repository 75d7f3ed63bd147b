/** Every option there is, with its kind, its bounds, its default and its meaning: the only list of options. */
import { availableParallelism, hostname } from "node:os";
import * as z from "zod";
import { MAX_TOKENS } from "../core/bucket.js";
import { costProfiles, MAX_BYTES, MAX_COST } from "../core/cost.js";
import { envoy } from "./envoy-options.js";
import { limits, route, timeouts, upstream } from "./gateway-options.js";
import { rateLimitDomain } from "./rate-limit-options.js";
import {
  address,
  amount,
  clusterName,
  DAY_MS,
  flag,
  HOUR_MS,
  headerName,
  hostName,
  list,
  milliseconds,
  named,
  network,
  nodeName,
  oneOf,
  otherwise,
  secret,
  section,
  sectionOrName,
  storeUrl,
  whole,
} from "./values.js";

/** A node must be able to report several times in its time-to-live. */
const SHORTEST_TTL_MS = 3_000;

/** Below a millionth of a token per second nothing would ever arrive. */
const rate = () => amount(0.000001, MAX_TOKENS);
const tokens = () => whole(1, MAX_TOKENS);

const cluster = section({
  id: clusterName().default("cluster-01").describe("All nodes with the same id on the same store share their limits."),
  capacity: tokens().default(1_000_000).describe("L1: tokens at most, of all apps together."),
  rate: rate().default(500_000).describe("L1: tokens per second, of all apps together."),
  node_ttl_ms: milliseconds(SHORTEST_TTL_MS, HOUR_MS)
    .default(10_000)
    .describe("A node that is silent for longer counts as dead, and its tokens go back."),
  reconcile_interval_ms: milliseconds(1_000, DAY_MS)
    .default(60_000)
    .describe("How often the balances of all apps are checked against the counters of the nodes."),
  reconcile_tolerance: amount(0, 1)
    .default(0.1)
    .describe("An app whose balance is off by more than this part is corrected."),
  automatic_emergency: flag()
    .default(true)
    .describe("Whether an emergency begins by itself at 95 % used, and ends below 80 %."),
  emergency_cooldown_ms: milliseconds(0, DAY_MS)
    .default(30_000)
    .describe("For how long usage must be low before an emergency that began by itself ends."),
});

const control = section({
  listen: address().default("127.0.0.1:9145").describe("Where health, metrics, admin and data planes are answered."),
  allow: list(network(), 0, 1_000)
    .default(["127.0.0.0/8", "::1/128"])
    .describe("Addresses that may call. Health checks may come from anywhere."),
  hosts: list(hostName(), 0, 1_000)
    .default([])
    .describe("Names by which it is called, besides localhost and plain addresses. Any other Host is refused."),
  admin_token: secret().default("").describe("What administrators show. Empty: the admin API is off."),
  plane_token: secret().default("").describe("What data planes show; it cannot administer. Empty: their API is off."),
});

const lease = section({
  reserve: whole(1, 1_000_000).default(1_000).describe("Tokens that a node wants to hold for an app (L3)."),
  refill_threshold: amount(0.01, 0.99).default(0.2).describe("Below this part of the reserve, more are fetched."),
  sync_interval_ms: milliseconds(10, 60_000).default(100).describe("A node that spends reports at least this often."),
  batch_threshold: whole(1, 1_000_000).default(1_000).describe("It also reports after so many requests."),
  idle_ms: milliseconds(100, HOUR_MS).default(1_000).describe("Tokens that nobody spent from for this long go back."),
  timeout_ms: milliseconds(10, 60_000).default(1_000).describe("No decision, and no call of the store, takes longer."),
});

const identity = section({
  app_header: headerName().default("X-App-Id").describe("The header that names the app."),
  user_header: headerName().default("X-User-Id").describe("The header that names the user."),
  trusted_hops: list(network(), 0, 1_000)
    .default(["127.0.0.0/8", "::1/128"])
    .describe("Whose identity headers and X-Forwarded-* are believed."),
  untrusted_headers: oneOf("ignore", "reject")
    .default("ignore")
    .describe("Identity headers from anyone else: as if they were not there, or 400."),
  api_key_header: headerName().default("X-API-Key").describe("The header with an API key."),
  api_keys: named(list(secret(), 1, 100))
    .prefault({})
    .describe("Per app, the keys that stand for it."),
});

const profileNames = Object.keys(costProfiles) as [keyof typeof costProfiles];
const ofProfile = "as `based_on` has it";
const base = (methods: string) =>
  otherwise(ofProfile, whole(0, MAX_COST).optional().describe(`Tokens for ${methods}, whatever its size.`));

/** A name, or a profile that differs from a named one in what it lists. */
const profile = sectionOrName("based_on", profileNames, {
  based_on: oneOf(...profileNames)
    .default("standard")
    .describe("What holds where nothing is listed."),
  base: section({
    GET: base("a GET"),
    HEAD: base("a HEAD"),
    OPTIONS: base("an OPTIONS"),
    DELETE: base("a DELETE"),
    POST: base("a POST"),
    PUT: base("a PUT"),
    PATCH: base("a PATCH"),
    other: base("any other method"),
  })
    .prefault({})
    .describe("Tokens per request, by method."),
  quantum: otherwise(
    ofProfile,
    whole(1, MAX_BYTES - 1)
      .optional()
      .describe("Bytes per unit of bandwidth."),
  ),
  bandwidth: otherwise(ofProfile, whole(0, MAX_COST).optional().describe("Tokens per unit that was begun.")),
  max_cost: otherwise(ofProfile, whole(1, MAX_COST).optional().describe("No request costs more.")),
});

export const app = section({
  guaranteed: rate().default(1_000).describe("L2: tokens per second."),
  burst: otherwise("what two seconds bring", tokens().optional().describe("L2: tokens at most.")),
  priority: whole(0, 1_000).default(2).describe("In an emergency 0 keeps all, 1 half, 2 a tenth, the others nothing."),
  profile: profile
    .prefault("standard")
    .describe("How its requests are priced: the name of a profile, or a section with what differs from one."),
  borrow: flag().default(false).describe("Whether it may borrow tokens that the cluster does not need."),
  dry_run: flag().default(false).describe("Decides and records as always, but never refuses."),
  on_store_failure: oneOf("open", "local", "closed")
    .default("open")
    .describe("While the store is gone: at most `fail_open_tokens` per second, the node's share, or nothing."),
});

const headers = section({
  x_ratelimit: flag().default(true).describe("X-RateLimit-Cost, X-RateLimit-Limit and X-RateLimit-Remaining."),
  ietf: flag().default(true).describe("RateLimit and RateLimit-Policy, as in the IETF draft."),
});

const metrics = section({
  enabled: flag().default(true).describe("Whether there is `/metrics`."),
  app_labels: whole(0, 100_000)
    .default(1_000)
    .describe("So many apps have a label of their own; the others share `other`."),
});

const log = section({
  level: oneOf("fatal", "error", "warn", "info", "debug", "trace", "silent")
    .default("info")
    .describe("What is written."),
  refusals_per_second: whole(0, 10_000)
    .default(5)
    .describe("Refusals written per second and app; of the others the number."),
  slow_decision_ms: milliseconds(1, 60_000).default(100).describe("Decisions that took longer are written, too."),
});

/** By section, so that a mistake in one does not hide those of the others. */
export const sections = {
  node_id: otherwise(
    "host name and process",
    nodeName().default(defaultNode).describe("The name of this service among all that share the limits."),
  ),
  listen: address().default("0.0.0.0:8080").describe("Where the gateway takes requests."),
  workers: otherwise(
    "one per core",
    whole(1, 256)
      .default(() => Math.min(availableParallelism(), 256))
      .describe("Processes of the gateway."),
  ),
  store: storeUrl().default("embedded").describe("Where the limits are kept. Embedded: in this service alone."),
  store_pool_size: whole(1, 100_000)
    .default(512)
    .describe("Calls under way per Redis server at most; they share a connection."),
  cluster: cluster.prefault({}).describe("What all nodes share."),
  control: control.prefault({}).describe("The listener for operators and data planes."),
  envoy: envoy.prefault({}).describe("The listener for Envoy, in each process of the gateway."),
  lease: lease.prefault({}).describe("The tokens that a node holds in advance."),
  fail_open_tokens: whole(0, MAX_TOKENS)
    .default(100)
    .describe(
      "Tokens per second that an app with `on_store_failure: open` may spend on a node while the store is gone.",
    ),
  unknown_apps: oneOf("default", "reject")
    .default("default")
    .describe("Apps that are not listed share the app `default`, or are refused."),
  identity: identity.prefault({}).describe("How a request tells whose it is."),
  apps: named(app).prefault({}).describe("The apps and their limits, by id."),
  rate_limits: list(rateLimitDomain, 0, 1_000)
    .default([])
    .describe("Limits by descriptors, for Envoy's rate limit service; see RATE_LIMITS.md."),
  rate_limit_values: whole(1, 1_000_000)
    .default(10_000)
    .describe("Values with a bucket of their own at a time, per process, where `rate_limits` leave the value open."),
  upstreams: named(upstream).prefault({}).describe("Where the gateway sends requests, by name."),
  routes: list(route, 0, 10_000).default([]).describe("Which requests go where. Without any there is no gateway."),
  headers: headers
    .prefault({})
    .describe(
      "Rate limit headers of responses. Refusals have Retry-After and dry runs X-RateLimit-Dry-Run in any case.",
    ),
  metrics: metrics.prefault({}).describe("What Prometheus sees."),
  log: log.prefault({}).describe("The log: lines of JSON on stdout."),
  timeouts: timeouts.prefault({}).describe("How long the gateway waits."),
  limits: limits.prefault({}).describe("How large requests may be."),
};

export const schema = z.strictObject(sections);

export type Config = z.output<typeof schema>;
export type AppConfig = z.output<typeof app>;

/** Host name and process: two gateways on one machine are two nodes. */
function defaultNode(): string {
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, "-");
  return `${host.slice(0, 80) || "node"}-${process.pid}`;
}
