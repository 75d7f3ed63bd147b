/** Options of the gateway: upstreams, routes, timeouts and size limits. */
import {
  DAY_MS,
  flag,
  HOUR_MS,
  hostName,
  identifier,
  list,
  milliseconds,
  oneOf,
  oneOfRenamed,
  optional,
  protocol,
  routePath,
  section,
  target,
  text,
  whole,
  zeroOr,
} from "../values.js";
import { limitName } from "./limits.js";
import { profile } from "./profile.js";
import { clientTls } from "./tls.js";

const MAX_CONNECTIONS = 10_000_000;

const dns = section({
  name: hostName().describe("Host name whose addresses are the targets."),
  port: whole(1, 65_535).describe("Port of every target."),
  interval_ms: milliseconds(100, HOUR_MS).default(5_000).describe("Interval of DNS lookups."),
});

const passive = section({
  failures: whole(1, 1_000).default(3).describe("Consecutive failures after which a target is skipped."),
  down_ms: milliseconds(1, HOUR_MS).default(10_000).describe("How long a failed target is skipped."),
});

const active = section({
  path: optional(routePath(), "no health checks").describe("Path of health checks."),
  interval_ms: milliseconds(100, HOUR_MS).default(2_000).describe("Interval of health checks."),
  timeout_ms: milliseconds(10, 60_000).default(1_000).describe("Timeout of a health check."),
  healthy_after: whole(1, 100).default(2).describe("Consecutive successes after which a target is healthy."),
  unhealthy_after: whole(1, 100).default(2).describe("Consecutive failures after which a target is unhealthy."),
});

export const upstreamOptions = section({
  targets: list(target(), 1, 1_000)
    .default([])
    .meta({ otherwise: "from `dns`" })
    .describe("Targets of the upstream. Either this or `dns` is required."),
  dns: dns.optional().describe("Targets from DNS, instead of `targets`."),
  connections: whole(1, 100_000)
    .default(512)
    .describe(
      "Maximum connections to one target. The Node gateway divides them: a client address gets at most 44 %, an app at most 80 %, and each less while others need some; further requests are queued.",
    ),
  queue: whole(0, 100_000)
    .default(512)
    .describe(
      "Maximum requests that wait for a connection to one target, divided like `connections`; further ones get 503. Node gateway only.",
    ),
  pass_host: flag().default(true).describe("Forward the client's Host header; otherwise the target's address is sent."),
  tls: optional(clientTls("the host of the target"), "the CAs of Node.js").describe(
    "TLS of connections to `https://` targets.",
  ),
  passive: passive.prefault({}).describe("Skip targets after failed requests."),
  active: active.prefault({}).describe("Health checks."),
});

export const upstream = upstreamOptions.superRefine(({ targets, dns }, { addIssue }) => {
  const complain = (option: string, message: string) => addIssue({ code: "custom", path: [option], message });
  if (targets.length === 0 && dns === undefined) complain("targets", "is required unless dns is set");
  if (targets.length > 0 && dns !== undefined) complain("dns", "must not be set together with targets");
});

export const connections = section({
  max_per_pod: whole(1, MAX_CONNECTIONS).default(100).describe("Maximum connections of the route to one target."),
  max_total: whole(0, MAX_CONNECTIONS)
    .default(1_000)
    .describe("Maximum connections of the route in total; 0: no limit."),
  max_per_app: whole(0, MAX_CONNECTIONS)
    .default(0)
    .describe("Maximum connections of one app on the route; 0: no limit."),
  max_per_client: optional(
    whole(0, MAX_CONNECTIONS),
    "a quarter of what the route can hold (`max_total`, and `max_per_pod` of all targets; of one target with `dns`), at least 20, but at most half of it",
  ).describe(
    "Maximum connections of one client address (an IPv6 /64) on the route, for all proxies together; 0: no limit. Of a trusted hop, the client in X-Forwarded-For counts; without that header there is no limit.",
  ),
  rate_per_second: zeroOr(0.001, 1_000_000)
    .default(100)
    .describe("New connections of the route per second, for all proxies together; 0: no limit."),
  burst: optional(whole(1, 1_000_000), "`rate_per_second`, at least 1").describe("Maximum burst of new connections."),
  burst_per_client: optional(
    whole(0, 1_000_000),
    "a quarter of `burst`, at least 20, but at most half of it; 0 if `max_per_client` is 0",
  ).describe(
    "Maximum new connections of one client address (an IPv6 /64) in the time in which `burst` of them are admitted; 0: no limit. If `burst` is 1, one in twice that time.",
  ),
  lease_s: whole(1, 3_600)
    .default(30)
    .describe("Lease of a slot: the slots of a crashed proxy are free after this time."),
  on_store_failure: oneOf("open", "local", "closed")
    .default("closed")
    .describe(
      "Without the store, a process admits all connections (see `max_without_store`), its share of the limits, or none.",
    ),
  max_without_store: whole(0, MAX_CONNECTIONS)
    .default(0)
    .describe(
      "With `on_store_failure: open`, maximum connections of the route in one process (an nginx or an Envoy, with all workers) while new ones are admitted without the store; 0: no limit.",
    ),
  placement: optional(whole(0, 16_383), "by a hash of host and path").describe(
    "On Redis Cluster, routes with the numbers 0, 1, 2, … are spread evenly over the primaries. Change it only while the route has no connections.",
  ),
  idle_ms: milliseconds(0, DAY_MS).default(0).describe("Close a connection after this long without a byte; 0: never."),
  ping_ms: milliseconds(0, HOUR_MS)
    .default(30_000)
    .describe(
      "Interval of TCP keep-alive probes; 0: never. The Node gateway also sends a WebSocket ping to a client that was silent for this long, and closes the connection if it is silent for as long again.",
    ),
  protocols: list(protocol(), 1, 16).default(["websocket"]).describe("Protocols that clients may upgrade to."),
});

/** Headers with a meaning for proxies or clients. */
const TAKEN_HEADERS =
  /^(connection|content-.*|date|host|keep-alive|location|ratelimit.*|retry-after|server|set-cookie|te|trailer|transfer-encoding|upgrade|via|x-ratelimit-.*)$/i;

const costHeader = () =>
  text(
    "must be a header name without underscores that has no other meaning, for example X-Cost",
    (name) => /^[A-Za-z0-9-]{1,64}$/.test(name) && !TAKEN_HEADERS.test(name),
  );

export const route = section({
  path: routePath().describe(
    "Path prefix. With a trailing slash it matches everything that begins with it, otherwise whole segments. The longest match wins.",
  ),
  host: optional(hostName(), "any").describe("Match only requests for this host."),
  upstream: identifier().describe("One of `upstreams`."),
  limits: list(limitName(), 0, 100)
    .default([])
    .describe("Names of `limits` that apply to this route. A limit that routes name applies to these routes only."),
  profile: optional(profile, "the profile of the app").describe(
    "How requests on this route are priced, instead of the profile of their app: the name of a profile, or a section with changes to one.",
  ),
  cost_header: optional(costHeader(), "the cost follows from the bytes").describe(
    "Header of the backend's responses with their actual cost, a whole number of tokens up to `max_cost` of the profile. It replaces the price of the bytes; clients do not get it. Other values, and headers that are sent twice, are ignored.",
  ),
  connections: optional(connections, "upgrades are refused").describe(
    "Allow upgrades to WebSocket; each connection takes a slot on a target.",
  ),
});

export const timeouts = section({
  connect_ms: milliseconds(1, HOUR_MS).default(5_000).describe("Timeout to connect to a target."),
  response_ms: milliseconds(1, HOUR_MS)
    .default(60_000)
    .describe("From the last byte of the request to the response header."),
  body_idle_ms: milliseconds(1, HOUR_MS).default(30_000).describe("Maximum time without a byte of a body."),
  body_rate_ms: milliseconds(100, HOUR_MS)
    .default(10_000)
    .describe("Period over which `request_limits.body_rate` is measured. Node gateway only."),
  queue_ms: milliseconds(1, HOUR_MS)
    .default(5_000)
    .describe(
      "Maximum time that a request waits for its share of the connections to a target; then 503. Uploads and downloads that their clients have delayed for this long may be ended for requests that wait. Node gateway only.",
    ),
  headers_ms: milliseconds(1, HOUR_MS).default(15_000).describe("For a client to send the complete header."),
  request_ms: milliseconds(0, DAY_MS)
    .default(HOUR_MS)
    .describe("For a client to send the complete request; 0: no limit while bytes keep arriving."),
  keep_alive_ms: milliseconds(1, HOUR_MS).default(65_000).describe("How long an idle client connection is kept."),
  linger_ms: milliseconds(0, 60_000)
    .default(2_000)
    .describe("After a response that closes the connection, discard input for this long before closing."),
  shutdown_ms: milliseconds(0, HOUR_MS)
    .default(10_000)
    .describe("Shutdown timeout: running requests may finish within it."),
});

export const requestLimits = section({
  header_bytes: whole(1_024, 1_048_576)
    .default(16_384)
    .describe("Maximum size of a request header in bytes; otherwise 431."),
  header_count: whole(1, 2_000).default(100).describe("Maximum number of request headers; otherwise 431."),
  body_bytes: whole(0, Number.MAX_SAFE_INTEGER)
    .default(Number.MAX_SAFE_INTEGER)
    .meta({ otherwise: "no limit" })
    .describe("Maximum size of a request body in bytes; otherwise 413."),
  path: oneOfRenamed({ any: "resolve" }, "resolve", "strict")
    .default("resolve")
    .describe(
      "With `resolve`, dot segments and `//` are resolved before a request is routed and passed on. With `strict` they get 400, as do encoded dots and escapes of escapes (`%252e`); Envoy still resolves dot segments and `//`. Always 400: `#`, backslashes, invalid escapes, encoded control characters, and `..;`.",
    ),
  encoded_slashes: optional(oneOf("reject", "keep"), "`keep` with at most one route, otherwise `reject`").describe(
    "Paths with an encoded slash or backslash (`%2F`, `%5C`) get 400, or are passed on as they are. With `keep`, limits apply to both readings of such a path, and nginx selects the route with the slash decoded. The default with `path: strict` is `reject`.",
  ),
  body_rate: whole(0, 1_000_000_000)
    .default(240)
    .describe(
      "Minimum bytes per second of a request body, in each period of `timeouts.body_rate_ms` in which the gateway waits for the client; otherwise 408. 0: no minimum. Node gateway only.",
    ),
  requests_per_client: whole(0, 1_000_000)
    .default(256)
    .describe(
      "Maximum running requests of one client address (an IPv6 /64) per process; otherwise 429. Of a trusted hop, the last address in X-Forwarded-For that is no trusted hop counts; without that header there is no limit. 0: no limit. Node gateway only.",
    ),
  connections_per_client: whole(0, 1_000_000)
    .default(1_024)
    .describe(
      "Maximum connections of one client address (an IPv6 /64) per process. A client may also have no more than are still free; the total is three eighths of the limit of open files. At a limit, idle connections are closed for new ones. Does not apply to trusted hops. 0: no limit. Node gateway only.",
    ),
  requests_per_app: whole(0, 1_000_000)
    .default(4_096)
    .describe("Maximum running requests of one app per process; otherwise 429. 0: no limit. Node gateway only."),
});
