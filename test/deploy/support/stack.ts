/** The containers from which the tests build small installations. */
import { readFileSync } from "node:fs";
import { fromRoot } from "../../../build/paths.js";
import { type Container, startContainer } from "./containers.js";

export const SERVICE = "localhost/tollgate:test";
export const ALPINE = "localhost/tollgate-alpine:test";
export const NGINX = "localhost/tollgate-nginx:test";
export const ENVOY = "localhost/tollgate-envoy:test";
const REDIS = "localhost/standin/redis";

export const PLANE_TOKEN = "token-of-the-planes-in-tests";

/** An app with 40 tokens that never come back, and one without a limit that matters. Every GET costs one token. */
export function tollgateYaml(connections = ""): string {
  return `
store: redis://redis:6379
control:
  listen: 0.0.0.0:9145
  allow: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 127.0.0.0/8]
  hosts: [tollgate]
  plane_token: \${TOLLGATE_PLANE_TOKEN}
envoy: { listen: "0.0.0.0:9147" }
workers: 1
identity: { api_keys: { limited: [key-of-the-app-limited] } }
apps:
  default: { guaranteed: 1000000, burst: 1000000 }
  limited: { guaranteed: 0.000001, burst: 40, profile: { bandwidth: 0 }, on_store_failure: closed }
upstreams:
  backend: { dns: { name: backend, port: 9000, interval_ms: 500 } }
routes:
  - { path: /, upstream: backend }
${connections}
# A busy machine must not look like a failed store.
lease: { timeout_ms: 30000 }
`;
}

export function redisContainer(network: string): Promise<Container> {
  return startContainer({
    image: REDIS,
    network,
    alias: "redis",
    command: ["redis-server", "--save", "", "--maxmemory-policy", "noeviction", "--protected-mode", "no"],
  });
}

/** Runs the demo backend of the Compose file with the Node of the service image. */
export function demoBackend(network: string, alias = "backend", port = 9000): Promise<Container> {
  return startContainer({
    image: SERVICE,
    network,
    alias,
    files: { "/demo/backend.mjs": readFileSync(fromRoot("deploy/compose/demo/backend.mjs"), "utf8") },
    env: { PORT: String(port) },
    options: ["--entrypoint", "node"],
    command: ["/demo/backend.mjs"],
  });
}

export function serviceContainer(network: string, yaml = tollgateYaml(), image = SERVICE): Promise<Container> {
  return startContainer({
    image,
    network,
    alias: "tollgate",
    files: { "/etc/tollgate/tollgate.yaml": yaml, "/run/secrets/plane": `${PLANE_TOKEN}\n` },
    env: { TOLLGATE_PLANE_TOKEN_FILE: "/run/secrets/plane" },
  });
}
