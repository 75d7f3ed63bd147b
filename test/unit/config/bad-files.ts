/** The invalid files in `bad/` and the expected messages. */

/** Part of several files; must not be part of any message. */
export const SECRET = "hunter2";
export const badEnvironment = { SECRET_LOOKING: `${SECRET}${SECRET}${SECRET}` };
export const badFolder = new URL("bad/", import.meta.url);

export function badFile(name: string): string {
  return new URL(`${name}.yaml`, badFolder).pathname;
}

const costHeader = "must be a header name without underscores that has no other meaning, for example X-Cost";

export const said: Record<string, string[]> = {
  aliases: ["the file: has too many aliases"],
  "api-key-app": ["identity.api_keys[0]: is not one of apps; did you mean video?"],
  "api-key-twice": ["identity.api_keys[1][0]: is also a key of video"],
  "api-keys-reversed": ["identity.api_keys[0]: must be a list of 1 to 100"],
  "app-name": [
    'apps["a{b}"]: the name must be 1 to 128 of A–Z a–z 0–9 . _ : -',
    'apps[""]: the name must be 1 to 128 of A–Z a–z 0–9 . _ : -',
    'apps["new\\nline"]: the name must be 1 to 128 of A–Z a–z 0–9 . _ : -',
  ],
  choice: [
    'unknown_apps: must be default or reject (is "refuse")',
    'apps.video.borrow: must be true or false (is "maybe")',
    'apps.video.on_store_failure: must be open or local or closed; did you mean open? (is "opne")',
  ],
  connections: [
    "routes[0].connections.max_per_pod: must be a whole number from 1 to 10000000 (is 0)",
    "routes[0].connections.max_total: must be a whole number from 0 to 10000000 (is -1)",
    "routes[0].connections.rate_per_second: must be 0 or a number from 0.001 to 1000000 (is 0.0001)",
    "routes[0].connections.burst: must be a whole number from 1 to 1000000 (is 0)",
    "routes[0].connections.lease_s: must be a whole number from 1 to 3600 (is 0)",
    'routes[0].connections.on_store_failure: must be open or local or closed; did you mean closed? (is "close")',
    'routes[0].connections.idle_ms: must be a whole number from 0 to 86400000 (is "forever")',
    'routes[0].connections.protocols[0]: must be an upgrade protocol in lower case, for example websocket (is "WebSocket")',
    "routes[0].connections.max_per_user: unknown option; did you mean max_per_pod?",
  ],
  "connections-protocols": ["routes[0].connections.protocols: must be a list of 1 to 16 (is a list of 0)"],
  "cost-header": [
    `routes[0].cost_header: ${costHeader} (is "X Cost")`,
    `routes[1].cost_header: ${costHeader} (is "X_Cost")`,
    `routes[2].cost_header: ${costHeader} (is "content-length")`,
    `routes[3].cost_header: ${costHeader} (is "X-RateLimit-Cost")`,
    `routes[4].cost_header: ${costHeader} (is 5)`,
  ],
  dns: [
    "upstreams.both.dns: must not be set together with targets (is a section)",
    "upstreams.empty.dns.name: must be a host name without a port",
    "upstreams.empty.dns.port: must be a whole number from 1 to 65535",
    'upstreams.wrong.dns.name: must be a host name without a port (is "a:1")',
    "upstreams.wrong.dns.port: must be a whole number from 1 to 65535 (is 0)",
    "upstreams.wrong.dns.interval_ms: must be a whole number from 100 to 3600000 (is 1)",
  ],
  "dry-run": [
    'apps.video.dry_run: must be true or false (is "always")',
    "apps.video.dryrun: unknown option; did you mean dry_run?",
  ],
  export: [
    'metrics.push[0]: must be statsd://host:port or graphite://host:port (is "statsd://")',
    'metrics.push[1]: has the unknown option "tag": prefix and tags are known (is "graphite://host:2003?tag=1")',
    'metrics.push[2]: has a value of tags other than true and false (is "statsd://host?tags=yes")',
    'metrics.push[3]: must have only a host, a port and the options prefix and tags (is "graphite://user@host")',
    "metrics.push_interval_ms: must be a whole number from 1000 to 3600000 (is 10)",
    'otel.endpoint: must be http://host:port or https://host:port, optionally with a path (is "collector:4318")',
    "otel.authorization: must be empty or 8 to 2048 printable ASCII characters",
    "otel.sample_ratio: must be a number from 0 to 1 (is 2)",
  ],
  fraction: ["apps.video.burst: must be a whole number from 1 to 1000000000 (is 1.5)"],
  "identity-host": ['identity.hosts["video.example.com"]: is not one of apps; did you mean video? (is "vidio")'],
  "identity-place": ["identity.path_segment: must be a whole number from 0 to 16 (is 17)"],
  infinite: ["cluster.rate: must be a number from 0.000001 to 1000000000 (is Infinity)"],
  listen: ["listen: must be host:port, for example 0.0.0.0:8080 or [::]:8080 (is 8080)"],
  "many-at-once": [
    'listen: must be host:port, for example 0.0.0.0:8080 or [::]:8080 (is "nowhere")',
    "workers: must be a whole number from 1 to 256 (is 0)",
    "cluster.rate: must be a number from 0.000001 to 1000000000 (is -1)",
    "apps.video.burst: must be a whole number from 1 to 1000000000 (is 0)",
    'routes[0].upstream: is not one of upstreams: backend (is "nobody")',
  ],
  jwt: [
    'identity.jwt.jwks_url: must be an https:// URL, or an http:// URL of this machine (is "http://keys.example.com/jwks.json")',
    "identity.jwt.refresh_s: must be a whole number from 1 to 86400 (is 0)",
    "identity.jwt.audience: must be a list of at most 100",
    `identity.jwt.algorithms[0]: must be RS256 or RS384 or RS512 or PS256 or PS384 or PS512 or ES256 or ES384 or ES512 or EdDSA (is "none")`,
    'identity.jwt.user_claim: must be 1 to 256 characters, without control characters (is "")',
  ],
  "jwt-keys": ["identity.jwt.jwks_url: is required unless jwks_file is set"],
  "jwt-two-sources": ['identity.jwt.jwks_url: must not be set with jwks_file (is "https://keys.example.com/")'],
  "limit-app": [
    "limits: must be a list of at most 1000 (is a section)",
    'apps["limit:mine"]: must not begin with limit: (is a section)',
  ],
  "limit-domain": ['rate_limits[0].domain: is reserved for limits; choose another one (is "limits")'],
  "limit-key": [
    'limits[0].key: must be a list of at most 8 (is "user")',
    'limits[1].key[0]: must be app, user, ip, method, host, route, path or header:NAME (is "address")',
    'limits[2].key[0]: must be app, user, ip, method, host, route, path or header:NAME (is "header:")',
    "limits[3].ipv6_prefix: must be a whole number from 16 to 128 (is 129)",
    "limits[4].ipv4_prefix: must be a whole number from 8 to 32 (is 7)",
  ],
  "limit-match": [
    'limits[0].match.app[0]: is not one of apps; did you mean shop? (is "shpo")',
    'limits[0].match.route[0]: is not one of routes (is "/nowhere")',
  ],
  "limit-match-values": [
    'limits[0].match.path[0]: must begin with / or * and have no spaces, ?, # or control characters (is "login")',
    'limits[0].match.method[0]: must be an HTTP method in upper case (is "post")',
    "limits[0].match.header[0].name: must be a header name",
    "limits[1].match.paths: unknown option; did you mean path?",
  ],
  "limit-name": [
    'limits[0].name: must be 1 to 48 of A–Z a–z 0–9 . _ - (is "per user")',
    "limits[1].name: must be 1 to 48 of A–Z a–z 0–9 . _ -",
  ],
  "limit-options": [
    'limits[0].count: must be request or cost (is "bytes")',
    'limits[0].invalid_values: must be reject or ignore (is "drop")',
    'limits[0].dry_run: must be true or false (is "maybe")',
    "limits[0].priority: must be a whole number from 0 to 1000 (is -1)",
    'limits[0].on_store_failure: must be open or local or closed (is "pass")',
    "limits[1].per: unknown option; known options: name, key, match, rate, burst, count, ipv4_prefix, ipv6_prefix, path_case, allow, deny, invalid_values, dry_run, priority, on_store_failure",
  ],
  "limit-rate": [
    "limits[0].rate: must be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s",
    "limits[1].rate: must be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s (is 10)",
    'limits[2].rate: must be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s (is "0/s")',
    'limits[3].rate: must be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s (is "10/week")',
    'limits[4].rate: must be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s (is "2000000000/s")',
    "limits[5].burst: must be a whole number from 1 to 1000000000 (is 0)",
  ],
  "limit-route": ['routes[0].limits[0]: is not one of limits; did you mean searches? (is "serches")'],
  "limit-twice": ['limits[1].name: limits[0] has the same name (is "a")', 'limits[1].key[2]: occurs twice (is "user")'],
  "limit-values": [
    "limits[0].allow: requires a key with exactly one part (is a list of 1)",
    "limits[1].deny: requires a key with exactly one part (is a list of 1)",
    'limits[2].allow[0]: must be an address or a network (is "10.0.0.0/33")',
    'limits[3].deny[0]: is also in allow (is "ann")',
  ],
  metrics: [
    'metrics.enabled: must be true or false (is "sometimes")',
    "metrics.app_labels: must be a whole number from 0 to 100000 (is -1)",
    "metrics.labels: unknown option; known options: enabled, app_labels, push, push_interval_ms",
  ],
  negative: [
    "apps.video.guaranteed: must be a number from 0.000001 to 1000000000 (is -5)",
    "apps.video.burst: must be a whole number from 1 to 1000000000 (is -1)",
  ],
  network: [
    'control.allow[0]: must be an address or a network, for example 10.0.0.0/8 or ::1/128 (is "10.0.0.0/33")',
    'control.allow[1]: must be an address or a network, for example 10.0.0.0/8 or ::1/128 (is "everywhere")',
  ],
  "no-value": ["listen: must be host:port, for example 0.0.0.0:8080 or [::]:8080 (is empty)"],
  "not-a-number": [
    "apps.video.guaranteed: must be a number from 0.000001 to 1000000000 (is NaN)",
    'apps.video.burst: must be a whole number from 1 to 1000000000 (is "lots")',
  ],
  "not-a-section": [
    "lease: must be a section with reserve, refill_threshold, sync_interval_ms, batch_threshold, report_interval_ms, idle_ms, timeout_ms (is 5)",
    "apps: must be a map of names to values (is a list of 1)",
  ],
  "not-options": ["the file: must be a map of options, for example listen: 0.0.0.0:8080"],
  "not-yaml": ["line 3, column 1: Flow map in block collection must be sufficiently indented and end with a }"],
  "pool-size": ["store_pool_size: must be a whole number from 1 to 100000 (is 0)"],
  port: ['listen: must be host:port, for example 0.0.0.0:8080 or [::]:8080 (is "0.0.0.0:99999")'],
  priority: ['apps.video.priority: must be a whole number from 0 to 1000 (is "high")'],
  "profile-bytes": ['apps.video.profile.bytes: must be both or request or response (is "uploads")'],
  "profile-cost": [
    "apps.video.profile.base.GET: must be a whole number from 0 to 1000000 (is 0.5)",
    "apps.video.profile.base.PUTT: unknown option; did you mean PUT?",
    "apps.video.profile.quantum: must be a whole number from 1 to 9007199254740991 (is 0)",
  ],
  "profile-name": ['apps.video.profile: must be standard or iops or bandwidth; did you mean standard? (is "standart")'],
  proto: [
    "__proto__: is not an allowed name",
    "apps.__proto__: is not an allowed name",
    "apps.video.__proto__: is not an allowed name",
  ],
  "rate-limit-app": [
    "rate_limit_values: must be a whole number from 1 to 1000000 (is 0)",
    'apps["rate-limit:mine"]: must not begin with rate-limit: (is a section)',
  ],
  "rate-limit-deep": [
    "rate_limits[0].descriptors[0].descriptors[0].descriptors[0].descriptors[0].descriptors[0].descriptors[0].descriptors[0].descriptors[0].descriptors: unknown option; known options: key, value, rate_limit, share_threshold, shadow_mode, quota_mode, priority, on_store_failure, metadata",
  ],
  "rate-limit-descriptors": [
    "rate_limits[0].descriptors[0].key: must be 1 to 256 characters, without control characters",
    'rate_limits[0].descriptors[1].key: must be 1 to 256 characters, without control characters (is "")',
    'rate_limits[0].descriptors[1].value: must be 1 to 1024 characters, without control characters (is "")',
    'rate_limits[0].descriptors[2].key: must be 1 to 256 characters, without control characters (is "new\\nline")',
    "rate_limits[0].descriptors[3].shadowmode: unknown option; did you mean shadow_mode?",
    "rate_limits[0].descriptors[4].metadata: must be a map with any names and values (is a list of 1)",
  ],
  "rate-limit-domains": [
    "rate_limits[0].domain: must be 1 to 256 characters, without control characters",
    'rate_limits[1].domain: must be 1 to 256 characters, without control characters (is "")',
  ],
  "rate-limit-replaces": [
    'rate_limits[0].descriptors[0].rate_limit.replaces[1]: must name another limit (is "me")',
    'rate_limits[0].descriptors[1].rate_limit.replaces[0]: must be 1 to 256 characters, without control characters (is "")',
    'rate_limits[0].descriptors[2].rate_limit.replaces: must be a list of at most 100 (is "them")',
  ],
  "rate-limit-twice": [
    'rate_limits[0].descriptors[2].value: entry 0 of the same list has the same key and value (is "x")',
    'rate_limits[0].descriptors[3].key: entry 1 of the same list has the same key and value (is "a")',
    "rate_limits[0].descriptors[4].share_threshold: requires a value that contains * (is true)",
    "rate_limits[0].descriptors[5].share_threshold: requires a value that contains * (is true)",
    "rate_limits[0].descriptors[6].descriptors[1].value: entry 0 of the same list has the same key and value (is 1)",
    'rate_limits[1].domain: rate_limits[0] has the same domain (is "shop")',
    'rate_limits[2].domain: is reserved for the apps; choose another one (is "tollgate")',
  ],
  "rate-limit-units": [
    'rate_limits[0].descriptors[0].rate_limit.unit: must be second or minute or hour or day or week or month or year (is "fortnight")',
    "rate_limits[0].descriptors[1].rate_limit.requests_per_unit: is required unless unlimited is true",
    "rate_limits[0].descriptors[2].rate_limit.unit: is required unless unlimited is true",
    'rate_limits[0].descriptors[3].rate_limit.unit: must not be set if unlimited is true (is "hour")',
    "rate_limits[0].descriptors[3].rate_limit.requests_per_unit: must not be set if unlimited is true (is 1)",
    "rate_limits[0].descriptors[4].rate_limit.requests_per_unit: must be a whole number from 0 to 1000000000 (is -1)",
    "rate_limits[0].descriptors[5].rate_limit.requests_per_unit: must be a whole number from 0 to 1000000000 (is 4000000000)",
  ],
  "route-path": [
    'routes[0].path: must be a path that begins with / and has no spaces, ?, # or control characters (is "api")',
    "routes[1].path: must be a path that begins with / and has no spaces, ?, # or control characters",
  ],
  "route-profile": [
    'routes[0].profile: must be standard or iops or bandwidth (is "gold")',
    "routes[1].profile.quantum: must be a whole number from 1 to 9007199254740991 (is 0)",
  ],
  "route-twice": ['routes[1].path: routes[0] has the same host and path (is "/")'],
  "route-upstream": ['routes[0].upstream: is not one of upstreams: backend; did you mean backend? (is "backnd")'],
  "store-kind": ["store: must be embedded, redis://…, rediss://…, redis-cluster://… or redis-sentinel://…/name"],
  "store-url": ["store: invalid store url: the port of the host is not a number"],
  targets: [
    "upstreams.backend.targets: must be a list of 1 to 1000 (is a list of 0)",
    'upstreams.other.targets[0]: must be host:port, or http://host:port, or https://host:port (is "http://host:80/path")',
    'upstreams.other.targets[1]: must be host:port, or http://host:port, or https://host:port (is "host")',
    "upstreams.third.targets: is required unless dns is set",
  ],
  "token-misspelt": ["control.plane_tokn: unknown option; did you mean plane_token?"],
  "token-short": ["control.admin_token: must be empty or 16 to 512 printable characters without spaces"],
  "tokens-alike": ["control.plane_token: must differ from admin_token: data planes must not have admin access"],
  "published-tokens": [
    "control.admin_token: is published in the documentation, and control.listen 0.0.0.0:9145 is not a loopback address: choose another one",
    "control.operators[0]: is published in the documentation, and control.listen 0.0.0.0:9145 is not a loopback address: choose another one",
    "control.plane_token: is published in the documentation, and control.listen 0.0.0.0:9145 is not a loopback address: choose another one",
    "control.planes[0]: is published in the documentation, and control.listen 0.0.0.0:9145 is not a loopback address: choose another one",
  ],
  "published-tokens-envoy": [
    "control.plane_token: is published in the documentation, and envoy.listen [::]:9147 is not a loopback address: choose another one",
  ],
  "envoy-without-token": [
    'envoy.listen: is not a loopback address: set control.plane_token or control.planes (is "10.0.0.5:9147")',
  ],
  "credentials-alike": [
    "control.operators[0]: must differ from admin_token",
    "control.operators[1]: must differ from the tokens of operators",
    "control.planes[0]: must differ from the tokens of operators: data planes must not have admin access",
    "control.planes[1]: must differ from plane_token",
  ],
  credentials: [
    "control.operators[0]: must be empty or 16 to 512 printable characters without spaces",
    "control.operators[1]: must be empty or 16 to 512 printable characters without spaces",
    "control.planes[1]: must be a token or a list of at most two, each empty or 16 to 512 printable characters without spaces",
    "control.planes[2]: must be a token or a list of at most two, each empty or 16 to 512 printable characters without spaces",
  ],
  planes: [
    "control.operators[0]: has no token",
    "control.planes[0]: has no token, and control.tls.client_auth does not ask for its certificate",
    "control.planes[1]: the name must have at most 64 characters",
  ],
  "identity-header": [
    'identity.app_header: must be a header name with at most four hyphens or underscores (is "X-A-B-C-D-E")',
    'identity.user_header: must be a header name with at most four hyphens or underscores (is "X User")',
    'identity.api_key_header: must be a header name with at most four hyphens or underscores (is "-key")',
  ],
  "too-few-buffers": ["envoy.max_buffered_bytes: must be at least 1.25 times max_message_bytes (is 4194304)"],
  "too-large": ["apps.video.burst: must be a whole number from 1 to 1000000000 (is 100000000000000000000)"],
  twice: ["line 2, column 1: this name occurs twice"],
  "unknown-option-in-section": [
    "lease.reserv: unknown option; did you mean reserve?",
    "lease.sync_interval: unknown option; did you mean sync_interval_ms?",
    "lease.colour: unknown option; known options: reserve, refill_threshold, sync_interval_ms, batch_threshold, report_interval_ms, idle_ms, timeout_ms",
  ],
  "unknown-option": ["listn: unknown option; did you mean listen?"],
  "variable-malformed": [
    `node_id: contains a \${ that does not begin \${NAME}; write $\${ for a literal \${ (is "a\${b")`,
  ],
  "variable-missing": [
    `control.admin_token: the environment variable TOLLGATE_NO_SUCH is not set; \${TOLLGATE_NO_SUCH:-} makes it optional`,
  ],
  "variable-value": [`workers: must be a whole number from 1 to 256 (is "\${SECRET_LOOKING}")`],
  zero: [
    "cluster.capacity: must be a whole number from 1 to 1000000000 (is 0)",
    "cluster.rate: must be a number from 0.000001 to 1000000000 (is 0)",
  ],
};
