/** The options of the gateway: upstreams, routes, and what a client may take in time and size. */
import {
  DAY_MS,
  flag,
  HOUR_MS,
  hostName,
  identifier,
  list,
  milliseconds,
  oneOf,
  otherwise,
  protocol,
  routePath,
  section,
  target,
  whole,
  zeroOr,
} from "./values.js";

const MAX_CONNECTIONS = 10_000_000;

const dns = section({
  name: hostName().describe("The name whose addresses are the targets."),
  port: whole(1, 65_535).describe("The port of every target."),
  interval_ms: milliseconds(100, HOUR_MS).default(5_000).describe("How often the name is looked up."),
});

const passive = section({
  failures: whole(1, 1_000).default(3).describe("After so many failures in a row a target is passed over."),
  down_ms: milliseconds(1, HOUR_MS).default(10_000).describe("For how long it is passed over."),
});

const active = section({
  path: otherwise(
    "nobody is asked",
    routePath().optional().describe("What targets are asked for to see how they are."),
  ),
  interval_ms: milliseconds(100, HOUR_MS).default(2_000).describe("How often they are asked."),
  timeout_ms: milliseconds(10, 60_000).default(1_000).describe("An answer that takes longer is a failure."),
  healthy_after: whole(1, 100).default(2).describe("So many good answers in a row bring a target back."),
  unhealthy_after: whole(1, 100).default(2).describe("So many failures in a row take it out."),
});

export const upstream = section({
  targets: otherwise(
    "those of `dns`",
    list(target(), 1, 1_000).default([]).describe("Where requests go. Either this or `dns` must be given."),
  ),
  dns: dns.optional().describe("Targets by a name that is looked up again and again, instead of `targets`."),
  connections: whole(1, 100_000)
    .default(512)
    .describe("Connections to one target at most; requests beyond wait in line."),
  pass_host: flag().default(true).describe("Whether targets get the client's Host, or their own address."),
  passive: passive.prefault({}).describe("Targets that fail are passed over for a time."),
  active: active.prefault({}).describe("Targets are asked how they are."),
}).superRefine(({ targets, dns }, { addIssue }) => {
  const complain = (option: string, message: string) => addIssue({ code: "custom", path: [option], message });
  if (targets.length === 0 && dns === undefined) complain("targets", "must be given, or dns instead");
  if (targets.length > 0 && dns !== undefined) complain("dns", "must not be given besides targets");
});

const connections = section({
  max_per_pod: whole(1, MAX_CONNECTIONS).default(100).describe("Connections on one target at most."),
  max_total: whole(0, MAX_CONNECTIONS).default(1_000).describe("Connections in all at most; 0: no limit."),
  max_per_app: whole(0, MAX_CONNECTIONS).default(0).describe("Connections of one app at most; 0: no limit."),
  rate_per_second: zeroOr(0.001, 1_000_000)
    .default(100)
    .describe("New connections per second, of all proxies together; 0: no limit."),
  burst: otherwise(
    "what a second brings, at least 1",
    whole(1, 1_000_000).optional().describe("New connections that may come at once."),
  ),
  lease_s: whole(1, 3_600).default(30).describe("The slots of a proxy that died are free after so many seconds."),
  on_store_failure: oneOf("open", "local", "closed")
    .default("closed")
    .describe("While the store is gone: admit all, as many as this node's share, or none."),
  idle_ms: milliseconds(0, DAY_MS).default(0).describe("A connection without a byte for so long is closed; 0: never."),
  ping_ms: milliseconds(0, HOUR_MS).default(30_000).describe("How often a silent peer is probed; 0: never."),
  protocols: list(protocol(), 1, 16).default(["websocket"]).describe("What clients may upgrade to."),
});

export const route = section({
  path: routePath().describe(
    "A prefix. With a slash at its end it covers all that begins with it, else whole segments. The longest counts.",
  ),
  host: otherwise("any", hostName().optional().describe("Only requests for this host.")),
  upstream: identifier().describe("One of `upstreams`."),
  connections: otherwise(
    "upgrades are refused",
    connections.optional().describe("Lets clients upgrade to WebSocket; each connection takes a slot on a target."),
  ),
});

export const timeouts = section({
  connect_ms: milliseconds(1, HOUR_MS).default(5_000).describe("To connect to a target."),
  response_ms: milliseconds(1, HOUR_MS)
    .default(60_000)
    .describe("From the last byte of the request to the head of the response."),
  body_idle_ms: milliseconds(1, HOUR_MS).default(30_000).describe("Without a byte of a body moving."),
  headers_ms: milliseconds(1, HOUR_MS).default(15_000).describe("For a client to send the whole head."),
  request_ms: milliseconds(0, DAY_MS)
    .default(0)
    .describe("For a client to send the whole request; 0: as long as it takes, while bytes keep coming."),
  keep_alive_ms: milliseconds(1, HOUR_MS).default(65_000).describe("A client's connection without a request is kept."),
  linger_ms: milliseconds(0, 60_000)
    .default(2_000)
    .describe("After an answer that ends the connection, what the client still sends is read and dropped for so long."),
  shutdown_ms: milliseconds(0, HOUR_MS)
    .default(10_000)
    .describe("From SIGTERM to the end: what runs may finish within it."),
});

export const limits = section({
  header_bytes: whole(1_024, 1_048_576).default(16_384).describe("Bytes of a request's head at most, else 431."),
  header_count: whole(1, 2_000).default(100).describe("Headers of a request at most, else 431."),
  body_bytes: otherwise(
    "no limit",
    whole(0, Number.MAX_SAFE_INTEGER)
      .default(Number.MAX_SAFE_INTEGER)
      .describe("Bytes of a request's body at most, else 413."),
  ),
});
