/** `tollgate render envoy`: its options. */
import { renderEnvoy } from "../../render/envoy/envoy.js";
import {
  ADMIN_SOCKET,
  type Balancer,
  DEFAULT_CONNECTIONS,
  type EnvoyRenderOptions,
} from "../../render/envoy/options.js";
import { flagOption, readChoice, readOptions, textOption, UsageError } from "../command.js";
import { commonOptions, readBundle, readCommon, readOptional, renderTo } from "./files.js";

export const envoyHelp = `Usage: tollgate render envoy --config FILE --out DIR [options]

Writes the files with which an unmodified Envoy (1.38 or later) enforces the limits of the configuration: a complete
bootstrap, envoy.yaml, the script tollgate.lua, which decides from leases, and secret-token.yaml with the token of the data
planes, which Envoy reloads when it is replaced. The last two are readable by their owner only.

  --config FILE              the configuration
  --out DIR                  output folder; created if missing
  --service HOST:PORT        control listener of a service; repeat for several (default: from the configuration)
  --envoy-service HOST:PORT  a service's listener for Envoy; repeat for several (default: envoy.listen)
  --mode lua|rls             lua: decide in Envoy (default). rls: no script, Envoy calls the service for each request
  --dynamic                  listeners, routes and clusters in separate files, which Envoy reloads when they are replaced
  --resolve                  replace upstreams with dns by their current addresses, and list these in addresses.txt
  --path DIR                 the folder from which Envoy reads the files, if not --out
  --listen HOST:PORT         address for clients (default: listen of the configuration)
  --node NAME                name of the node (default: envoy). Every worker appends a random suffix
  --workers N                threads of Envoy, its --concurrency (default: workers of the configuration)
  --admin PATH|HOST:PORT     Envoy's admin interface (default: the Unix socket ${ADMIN_SOCKET} next to the files)
  --max-connections N        maximum number of client connections (default: ${DEFAULT_CONNECTIONS})
  --behind-alb               a load balancer such as an AWS ALB is in front: health check, idle timeout, X-Forwarded-For
  --hops N                   with --behind-alb: number of proxies that append to X-Forwarded-For (default: 1)
  --alb-idle SECONDS         with --behind-alb: idle timeout of the load balancer (default: 60)
  --health PATH              with --behind-alb: path of the health check (default: /healthz)
  --tls-certificate FILE, --tls-key FILE   enable TLS on the listener
  --service-ca FILE          if control.tls is set: CA certificates of the services (default: those of the system)
  --service-name NAME        the name in the certificates of the services (default: their host)
  --client-certificate FILE, --client-key FILE   own certificate for the services

Example:
  tollgate render envoy --config tollgate.yaml --out /etc/envoy --service 10.0.0.5:9145 --envoy-service 10.0.0.5:9147
`;

const optionSpecs = {
  ...commonOptions,
  "envoy-service": { type: "string", multiple: true },
  mode: { type: "string", default: "lua" },
  dynamic: flagOption,
  listen: textOption,
  admin: textOption,
  "max-connections": textOption,
  "behind-alb": flagOption,
  hops: textOption,
  "alb-idle": textOption,
  health: textOption,
} as const;

type Values = ReturnType<typeof readOptions<typeof optionSpecs>>;

/** Writes the files and returns their names. */
export function renderForEnvoy(args: string[]): string | Promise<string> {
  const values = readOptions(args, optionSpecs);
  const { out, options } = readCommon(values);
  const mode = readChoice("--mode", values.mode, ["lua", "rls"]);
  const all: EnvoyRenderOptions = {
    ...options,
    mode,
    dynamic: values.dynamic,
    envoyServices: values["envoy-service"] ?? [],
    admin: values.admin,
    maxConnections: readOptional("--max-connections", values["max-connections"], 10_000_000) ?? DEFAULT_CONNECTIONS,
    listen: values.listen,
    balancer: readBalancer(values),
    bundle: mode === "lua" ? readBundle("envoy") : "",
  };
  return renderTo(out, values, (config) => renderEnvoy(config, all));
}

function readBalancer(values: Values): Balancer | undefined {
  const { hops, health, "alb-idle": idle, "behind-alb": behind } = values;
  if (!behind) {
    const given = Object.entries({ "--hops": hops, "--health": health, "--alb-idle": idle }).find(([, text]) => text);
    if (given !== undefined) throw new UsageError(`${given[0]} requires --behind-alb`);
    return undefined;
  }
  if (health !== undefined && !/^\/[!-~]*$/.test(health)) throw new UsageError("--health must begin with a slash");
  return {
    hops: readOptional("--hops", hops, 16) ?? 1,
    idleMs: (readOptional("--alb-idle", idle, 4_000) ?? 60) * 1000,
    healthPath: health ?? "/healthz",
  };
}
