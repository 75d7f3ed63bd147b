/** envoyproxy/ratelimit with Redis, called by three Envoys. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { envoyBinary } from "../../test/support/find-envoy.js";
import { freePort } from "../../test/support/ports.js";
import { startProcess } from "../../test/support/processes.js";
import { startRedis } from "../../test/support/redis-server.js";
import { cpuNs } from "../support/cpu-time.js";
import { ratelimitVersion, startRatelimit } from "../support/ratelimit-service.js";
import { accepts } from "./accepts.js";
import { type Kind, keeping, LIMIT, perNode, USER_RATE } from "./system.js";

const TYPES = "type.googleapis.com/envoy.extensions";
const rules = `domain: compare
descriptors:
  - { key: app_id, value: app, rate_limit: { unit: second, requests_per_unit: ${LIMIT.rate} } }
  - { key: app_id, value: busy, rate_limit: { unit: second, requests_per_unit: 1000000000 } }
  - { key: user, rate_limit: { unit: second, requests_per_unit: ${USER_RATE} } }
`;
const filter = {
  name: "envoy.filters.http.ratelimit",
  typed_config: {
    "@type": `${TYPES}.filters.http.ratelimit.v3.RateLimit`,
    domain: "compare",
    request_type: "external",
    stage: 0,
    failure_mode_deny: false,
    enable_x_ratelimit_headers: "DRAFT_VERSION_03",
    rate_limit_service: { grpc_service: { envoy_grpc: { cluster_name: "ratelimit" } }, transport_api_version: "V3" },
  },
};
const actions = [
  { actions: [{ request_headers: { header_name: "x-app-id", descriptor_key: "app_id" } }] },
  { actions: [{ request_headers: { header_name: "x-user-id", descriptor_key: "user" } }] },
];

function cluster(name: string, address: string, http2: boolean) {
  const [host, port] = address.split(":");
  const endpoint = { address: { socket_address: { address: host, port_value: Number(port) } } };
  return {
    name,
    type: "STATIC",
    connect_timeout: "1s",
    ...(http2 && {
      typed_extension_protocol_options: {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
          "@type": `${TYPES}.upstreams.http.v3.HttpProtocolOptions`,
          explicit_http_config: { http2_protocol_options: {} },
        },
      },
    }),
    load_assignment: { cluster_name: name, endpoints: [{ lb_endpoints: [{ endpoint }] }] },
  };
}

/** @param service undefined: no limit */
async function startEnvoy(backend: string, service?: string) {
  const dir = mkdtempSync(join(tmpdir(), "compare-envoy-"));
  const port = await freePort();
  const router = {
    name: "envoy.filters.http.router",
    typed_config: { "@type": `${TYPES}.filters.http.router.v3.Router` },
  };
  const route = { cluster: "backend", ...(service === undefined ? {} : { rate_limits: actions }) };
  const manager = {
    "@type": `${TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: "ingress",
    http_filters: service === undefined ? [router] : [filter, router],
    route_config: { virtual_hosts: [{ name: "all", domains: ["*"], routes: [{ match: { prefix: "/" }, route }] }] },
  };
  const listener = {
    address: { socket_address: { address: "127.0.0.1", port_value: port } },
    filter_chains: [{ filters: [{ name: "envoy.filters.network.http_connection_manager", typed_config: manager }] }],
  };
  const clusters = [
    cluster("backend", backend, false),
    ...(service === undefined ? [] : [cluster("ratelimit", service, true)]),
  ];
  writeFileSync(join(dir, "envoy.json"), JSON.stringify({ static_resources: { listeners: [listener], clusters } }));
  const args = ["-c", join(dir, "envoy.json"), "--concurrency", "1", "-l", "error", "--use-dynamic-base-id"];
  const child = startProcess(envoyBinary(), args, dir);
  await accepts(port, child);
  return {
    url: `http://127.0.0.1:${port}/`,
    pid: child.pid,
    async stop() {
      await child.end("SIGKILL");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export const ratelimitPeer = (binary: string): Kind => ({
  name: "envoyproxy-ratelimit",
  title: "envoyproxy/ratelimit, Envoy",
  isOurs: false,
  version: () => ratelimitVersion,
  configuration: `${rules}\n# Envoy: ${JSON.stringify(filter, null, 2)}`,
  source: "its README and examples/envoy. A fixed window: it has no burst",
  hasUserLimit: true,
  start: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const service = keep(await startRatelimit(binary, redis.port, rules));
      const nodes = await perNode(async () => keep(await startEnvoy(world.backend, service.address)));
      const bare = keep(await startEnvoy(world.backend));
      return {
        urls: nodes.map(({ url }) => url),
        bareUrl: bare.url,
        nodeNs: () => cpuNs([nodes[0]!.pid, service.pid, redis.pid]),
        bareNs: () => cpuNs([bare.pid]),
        redis,
      };
    }),
});
