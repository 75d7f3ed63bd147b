/** `tollgate render envoy`: what the command line says about an Envoy, and the files that come of it. */
import { resolve } from "node:path";
import { renderEnvoy } from "../render/envoy/envoy.js";
import {
  type Balancer,
  DEFAULT_ADMIN,
  DEFAULT_BALANCER,
  DEFAULT_CONNECTIONS,
  type EnvoyRenderOptions,
} from "../render/envoy/options.js";
import type { Rendered } from "../render/files.js";
import { configOrComplain } from "./check-config.js";
import { readOptions, UsageError } from "./command.js";
import { checkNode, type Place, readBundle, tlsOf } from "./render-files.js";

export const envoyHelp = `Usage: tollgate render envoy --config FILE --out DIR [options]

Writes what Envoy (1.38 or later, unmodified) needs to hold the limits of the configuration: a whole bootstrap, envoy.yaml, and
beside it tollgate.lua, which decides in Envoy from a lease. Both hold the token of the data planes and are for their owner alone.

  --config FILE              the configuration
  --out DIR                  where the files go; made if it is not there
  --service HOST:PORT        control listener of a service, again for each of several; else that of the configuration
  --envoy-service HOST:PORT  a service's listener for Envoy, likewise; else envoy.listen of the configuration
  --mode lua|rls             lua: decide in Envoy (default). rls: no script, Envoy's own filter asks the service each time
  --dynamic                  listeners, routes and clusters in files of their own: Envoy reads them again when they are replaced
  --path DIR                 where the files will lie when Envoy reads them, if not in --out
  --listen HOST:PORT         where clients arrive; else listen of the configuration
  --node NAME                the name of the node; else "envoy". Every worker adds letters of its own
  --workers N                threads of Envoy (its --concurrency); else workers of the configuration
  --admin HOST:PORT          Envoy's own pages; else 127.0.0.1:9901
  --max-connections N        connections of clients at most; else 100000
  --behind-alb               a load balancer such as AWS's ALB is in front: health page, idle times, X-Forwarded-For
  --hops N                   with it: so many proxies in front append to X-Forwarded-For; else 1
  --alb-idle SECONDS         with it: after this it closes idle connections; else 60
  --health PATH              with it: the health page, answered by Envoy itself; else /healthz
  --tls-certificate FILE, --tls-key FILE   makes the listener speak TLS

Example:
  tollgate render envoy --config tollgate.yaml --out /etc/envoy --service 10.0.0.5:9145 --envoy-service 10.0.0.5:9146
`;

const optionSpecs = {
  config: { type: "string" },
  out: { type: "string" },
  service: { type: "string", multiple: true },
  "envoy-service": { type: "string", multiple: true },
  mode: { type: "string", default: "lua" },
  dynamic: { type: "boolean", default: false },
  path: { type: "string" },
  listen: { type: "string" },
  node: { type: "string" },
  workers: { type: "string" },
  admin: { type: "string", default: DEFAULT_ADMIN },
  "max-connections": { type: "string" },
  "behind-alb": { type: "boolean", default: false },
  hops: { type: "string" },
  "alb-idle": { type: "string" },
  health: { type: "string" },
  "tls-certificate": { type: "string" },
  "tls-key": { type: "string" },
} as const;

type Values = ReturnType<typeof readOptions<typeof optionSpecs>>;

export function renderForEnvoy(args: string[], place: Place): Rendered {
  const values = readOptions(args, optionSpecs);
  const out = place(values.out);
  const { mode } = values;
  if (mode !== "lua" && mode !== "rls") throw new UsageError("--mode must be lua or rls");
  checkNode(values.node);
  const tls = tlsOf(values);
  const balancer = balancerOf(values);
  const workers = wholeOf(values.workers, "--workers", 999);
  const options: EnvoyRenderOptions = {
    path: resolve(values.path ?? out),
    mode,
    dynamic: values.dynamic,
    services: values.service ?? [],
    envoyServices: values["envoy-service"] ?? [],
    admin: values.admin,
    maxConnections: wholeOf(values["max-connections"], "--max-connections", 10_000_000) ?? DEFAULT_CONNECTIONS,
    ...(values.listen === undefined ? {} : { listen: values.listen }),
    ...(values.node === undefined ? {} : { node: values.node }),
    ...(workers === undefined ? {} : { workers }),
    ...(balancer === undefined ? {} : { balancer }),
    ...(tls === undefined ? {} : { tls }),
    bundle: mode === "lua" ? readBundle("envoy") : "",
  };
  return renderEnvoy(configOrComplain(values.config), options);
}

function balancerOf(values: Values): Balancer | undefined {
  const { hops, health, "alb-idle": idle, "behind-alb": behind } = values;
  if (!behind) {
    const alone = Object.entries({ "--hops": hops, "--health": health, "--alb-idle": idle }).find(([, given]) => given);
    if (alone !== undefined) throw new UsageError(`${alone[0]} goes with --behind-alb`);
    return undefined;
  }
  if (health !== undefined && !/^\/[!-~]*$/.test(health)) throw new UsageError("--health must begin with a slash");
  const idleSeconds = wholeOf(idle, "--alb-idle", 4_000);
  return {
    hops: wholeOf(hops, "--hops", 16) ?? DEFAULT_BALANCER.hops,
    idleMs: idleSeconds === undefined ? DEFAULT_BALANCER.idleMs : idleSeconds * 1000,
    healthPath: health ?? DEFAULT_BALANCER.healthPath,
  };
}

function wholeOf(text: string | undefined, option: string, most: number): number | undefined {
  if (text === undefined) return undefined;
  const value = /^[1-9][0-9]{0,8}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= most)) throw new UsageError(`${option} must be a whole number from 1 to ${most}`);
  return value;
}
