/** The servers of the nginx benchmark: one configuration, rendered once per side with a few changes. */
import { readFileSync } from "node:fs";
import { type GatewayProcess, startGateway } from "../test/support/gateway-process.js";
import { probed } from "../test/support/lua-probe.js";
import { type NginxProcess, type StartNginxOptions, startNginx } from "../test/support/nginx-process.js";
import { type RedisServer, startRedis } from "../test/support/redis-server.js";

export type SideName =
  | "bare"
  | "tollgate"
  | "ietf-headers"
  | "no-headers"
  | "handlers"
  | "headers"
  | "limit-req"
  | "redis-lua"
  | "decision"
  | "return-200"
  | "probed-tollgate"
  | "probed-handlers";

const LUA_BLOCK = /^(init|init_worker|log)_by_lua_block \{[^}]*\}\n/gm;
const PROXY = /proxy_pass [^;]+;/g;
const LIMITER = new URL("nginx-redis-limiter.lua", import.meta.url).pathname;

function without(text: string, name: string): string {
  if (name === "tollgate-http.conf") return text.replace(LUA_BLOCK, "");
  return name === "tollgate-location.conf" ? "" : text;
}

const inLocation = (line: string) => (text: string, name: string) =>
  name === "tollgate-location.conf" ? `${line}\n` : without(text, name);

const EMPTY_HANDLERS = "access_by_lua_block { }\nlog_by_lua_block { }";

/** As long as the headers of a decision. */
const HEADERS = {
  "X-RateLimit-Cost": "2",
  "X-RateLimit-Limit": "1000000",
  "X-RateLimit-Remaining": "999999",
  "RateLimit-Policy": '"busy";q=1000000;w=1',
  RateLimit: '"busy";r=999999;t=1',
};
const ADDED_HEADERS = Object.entries(HEADERS)
  .map(([name, value]) => `add_header ${name} '${value}' always;`)
  .join("\n");

const probedHandlers = (text: string, name: string) =>
  name === "tollgate-http.conf"
    ? `${without(text, name)}${probed("init_worker_by_lua_block { }\n", name)}`
    : probed(inLocation(EMPTY_HANDLERS)(text, name), name);

const inPlaceOfProxy = (line: string) => (text: string) => text.replace(PROXY, line);

function optionsOf(side: SideName, services: string[], redisPort: number): StartNginxOptions {
  const common = { services, workers: 2, node: "bench" };
  switch (side) {
    case "bare":
      return { ...common, edit: without };
    case "tollgate":
    case "ietf-headers":
    case "no-headers":
      return common;
    case "handlers":
      // The cost of being called before and after a request.
      return { ...common, edit: inLocation(EMPTY_HANDLERS) };
    case "headers":
      // The same, and as many headers as a decision has, without a decision.
      return { ...common, edit: inLocation(`${EMPTY_HANDLERS}\n${ADDED_HEADERS}`) };
    case "probed-tollgate":
      return { ...common, workers: 1, edit: probed };
    case "probed-handlers":
      return { ...common, workers: 1, edit: probedHandlers };
    case "limit-req":
      return {
        ...common,
        http: "limit_req_zone $http_x_app_id zone=apps:10m rate=1000000r/s;",
        edit: inLocation("limit_req zone=apps burst=1000000 nodelay;"),
      };
    case "redis-lua":
      return {
        ...common,
        http: `init_worker_by_lua_block { limiter = dofile("${LIMITER}") }`,
        edit: inLocation(`access_by_lua_block { limiter.access(${redisPort}, 1000000, 1000000) }`),
      };
    case "decision":
      // The cheapest response that nginx can send after the access phase.
      return { ...common, edit: inPlaceOfProxy("empty_gif;") };
    case "return-200":
      return { ...common, edit: (text, name) => inPlaceOfProxy("return 200;")(without(text, name)) };
  }
}

/** The configuration of the headers to send. */
function headersOf(side: SideName): string {
  if (side === "ietf-headers") return "headers: { x_ratelimit: false }\n";
  return side === "no-headers" ? "headers: { x_ratelimit: false, ietf: false }\n" : "";
}

/** Spreads the connections evenly over the workers; otherwise one worker may accept nearly all of them in some rounds. */
function sharedEvenly(edit: StartNginxOptions["edit"]): NonNullable<StartNginxOptions["edit"]> {
  return (text, name) => {
    const edited = edit?.(text, name) ?? text;
    return name === "nginx.conf" ? edited.replace(/ default_server;/g, " default_server reuseport;") : edited;
  };
}

export interface NginxSide {
  nginx: NginxProcess;
  /** CPU time of the workers. */
  cpuNs(): number;
  memoryKib(): number;
}

export interface NginxSides {
  sides: Map<SideName, NginxSide>;
  stop(): Promise<void>;
}

export async function startSides(names: SideName[]): Promise<NginxSides> {
  const started: { stop(): Promise<void> }[] = [];
  const stop = async () => {
    for (const each of started.reverse()) await each.stop();
  };
  function keep<T extends { stop(): Promise<void> }>(server: T): T {
    started.push(server);
    return server;
  }
  try {
    const body = "x".repeat(1024);
    const yaml = (target: string) => `
log: { level: error }
apps: { busy: { guaranteed: 1000000, burst: 1000000 } }
cluster: { capacity: 10000000, rate: 10000000 }
upstreams: { backend: { targets: ["${target}"] } }
routes: [{ path: /, upstream: backend }]
`;
    const nowhere = yaml("127.0.0.1:9");
    const answers = (text: string, name: string) => inPlaceOfProxy(`return 200 "${body}";`)(without(text, name));
    const backend: NginxProcess = keep(await startNginx(nowhere, { workers: 1, edit: answers }));
    const redis: RedisServer = keep(await startRedis());
    const config = yaml(`127.0.0.1:${backend.port}`);
    const service: GatewayProcess = keep(await startGateway(`workers: 1\nnode_id: service\n${config}`));
    const services = [service.controlUrl.replace("http://", "")];
    const sides = new Map<SideName, NginxSide>();
    for (const name of names) {
      const options = optionsOf(name, services, redis.port);
      const nginx = keep(await startNginx(config + headersOf(name), { ...options, edit: sharedEvenly(options.edit) }));
      sides.set(name, sideOf(nginx));
    }
    return { sides, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function sideOf(nginx: NginxProcess): NginxSide {
  const sum = (of: (pid: number) => number) => nginx.workers().reduce((total, pid) => total + of(pid), 0);
  return {
    nginx,
    cpuNs: () => sum((pid) => Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0])),
    memoryKib: () =>
      sum((pid) => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)),
  };
}
