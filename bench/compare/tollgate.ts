/** Tollgate in the comparison: three Node gateways, three nginx and three Envoys. */

import { startEnvoy } from "../../test/support/envoy-process.js";
import { type GatewayProcess, startGateway, workersOf } from "../../test/support/gateway-process.js";
import { startNginx } from "../../test/support/nginx-process.js";
import { startRedis } from "../../test/support/redis-server.js";
import { bareEnvoy } from "../envoy-sides.js";
import { versionText } from "../performance-page.js";
import { cpuNs } from "../support/cpu-time.js";
import { type Kind, keeping, LIMIT, MOST_CONNECTIONS, perNode, USER_RATE, type World } from "./system.js";

const version = versionText;
const source = "docs/CONFIGURATION.md";

const apps = `apps:
  app: { guaranteed: ${LIMIT.rate}, burst: ${LIMIT.burst}, on_store_failure: local, profile: { based_on: iops, bandwidth: 0 } }
  busy: { guaranteed: 1000000, burst: 1000000, profile: { based_on: iops, bandwidth: 0 } }
cluster: { capacity: 10000000, rate: 10000000 }`;
const users = `limits: [{ name: per-user, key: [user], rate: ${USER_RATE}/s, match: { app: [app], header: [{ name: X-User-Id }] }, on_store_failure: local }]`;
const connections = `connections: { max_per_pod: ${MOST_CONNECTIONS}, max_total: 1000, rate_per_second: 10000, lease_s: 10 }`;

const common = (world: World, store: string) => `
log: { level: error }
workers: 1
store: ${store}
${apps}
upstreams: { backend: { targets: ["${world.backend}"] } }
routes: [{ path: /, upstream: backend }]
`;
const withSockets = (world: World, store: string) =>
  common(world, store).replace(
    /upstreams:.*/s,
    `upstreams: { pods: { targets: ["${world.pod}"] } }\nroutes: [{ path: /, upstream: pods, ${connections} }]\n`,
  );

const allOf = (process: GatewayProcess) => [process.pid, ...workersOf(process.pid)];
const control = (process: GatewayProcess) => process.controlUrl.replace("http://", "");

export const tollgateNode: Kind = {
  name: "tollgate-node",
  title: "Tollgate, Node gateway",
  isOurs: true,
  version,
  configuration: `${apps}\n${users}`,
  source,
  hasUserLimit: true,
  start: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const yaml = `${common(world, redis.url)}\n${users}\n`;
      const nodes = await perNode(async (i) => keep(await startGateway(`node_id: gw-${i}\n${yaml}`, { built: true })));
      const bare = keep(await startBareGateway(world));
      return {
        urls: nodes.map(({ url }) => `${url}/`),
        bareUrl: bare.url,
        nodeNs: () => cpuNs([...allOf(nodes[0]!), redis.pid]),
        bareNs: bare.ns,
        redis,
      };
    }),
  startConnections: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const yaml = withSockets(world, redis.url);
      const nodes = await perNode(async (i) => keep(await startGateway(`node_id: gw-${i}\n${yaml}`, { built: true })));
      return {
        urls: nodes.map(({ url }) => url.replace("http", "ws")),
        killFirst: async () => nodes[0]!.killAll(),
      };
    }),
};

/** The gateway has no mode without a limiter, so the part of it that forwards runs alone. */
async function startBareGateway({ backend }: World) {
  const { startSide } = await import("../gateway.js");
  const side = await startSide("gateway-open", Number(backend.split(":")[1]));
  return {
    url: `http://127.0.0.1:${side.port}/`,
    ns: () => cpuNs([side.process.pid!]),
    async stop() {
      side.process.kill("SIGKILL");
    },
  };
}

const withoutLua = (text: string, name: string) => {
  if (name === "tollgate-http.conf") return text.replace(/^(init|init_worker|log)_by_lua_block \{[^}]*\}\n/gm, "");
  return name === "tollgate-location.conf" ? "" : text;
};

export const tollgateNginx: Kind = {
  name: "tollgate-nginx",
  title: "Tollgate, nginx",
  isOurs: true,
  version,
  configuration: `${apps}\n${users}\n# tollgate render nginx --service …`,
  source,
  hasUserLimit: true,
  start: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const yaml = `${common(world, redis.url)}\n${users}\n`;
      const service = keep(await startGateway(`node_id: service\n${yaml}`, { built: true }));
      const options = { services: [control(service)], workers: 1 };
      const nodes = await perNode(async (i) => keep(await startNginx(yaml, { ...options, node: `nginx-${i}` })));
      const bare = keep(await startNginx(yaml, { ...options, edit: withoutLua }));
      return {
        urls: nodes.map(({ url }) => `${url}/`),
        bareUrl: `${bare.url}/`,
        nodeNs: () => cpuNs([...nodes[0]!.workers(), ...allOf(service), redis.pid]),
        bareNs: () => cpuNs(bare.workers()),
        redis,
      };
    }),
  startConnections: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const yaml = withSockets(world, redis.url);
      const service = keep(await startGateway(`node_id: service\n${yaml}`, { built: true }));
      const options = { services: [control(service)], workers: 1 };
      const nodes = await perNode(async (i) => keep(await startNginx(yaml, { ...options, node: `nginx-${i}` })));
      return { urls: nodes.map(({ url }) => url.replace("http", "ws")), killFirst: () => nodes[0]!.killAll() };
    }),
};

export const tollgateEnvoy: Kind = {
  name: "tollgate-envoy",
  title: "Tollgate, Envoy",
  isOurs: true,
  version,
  configuration: `${apps}\n${users}\n# tollgate render envoy --service …`,
  source,
  hasUserLimit: true,
  start: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const yaml = `${common(world, redis.url)}\n${users}\n`;
      const service = keep(await startGateway(`node_id: service\n${yaml}`, { built: true }));
      const options = { services: [control(service)], workers: 1 };
      const nodes = await perNode(async (i) => keep(await startEnvoy(yaml, { ...options, node: `envoy-${i}` })));
      const bare = keep(await startEnvoy(yaml, { ...options, edit: bareEnvoy }));
      return {
        urls: nodes.map(({ url }) => `${url}/`),
        bareUrl: `${bare.url}/`,
        nodeNs: () => cpuNs([nodes[0]!.pid(), ...allOf(service), redis.pid]),
        bareNs: () => cpuNs([bare.pid()]),
        redis,
      };
    }),
  startConnections: (world) =>
    keeping(async (keep) => {
      const redis = keep(await startRedis());
      const yaml = withSockets(world, redis.url);
      const service = keep(await startGateway(`node_id: service\n${yaml}`, { built: true }));
      const options = { services: [control(service)], workers: 1 };
      const nodes = await perNode(async (i) => keep(await startEnvoy(yaml, { ...options, node: `envoy-${i}` })));
      return { urls: nodes.map(({ url }) => url.replace("http", "ws")), killFirst: () => nodes[0]!.killAll() };
    }),
};
