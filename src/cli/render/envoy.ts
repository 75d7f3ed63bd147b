/** `tollgate render envoy`: its options. */
import { renderEnvoy } from "../../render/envoy/envoy.js";
import {
  ADMIN_SOCKET,
  type Balancer,
  DEFAULT_CONNECTIONS,
  type EnvoyForm,
  type EnvoyRenderOptions,
  type KubernetesOptions,
} from "../../render/envoy/options.js";
import { programVersion } from "../../service/process/version.js";
import { flagOption, readChoice, readOptions, textOption, UsageError } from "../command.js";
import { commonOptions, readBundle, readCommon, readOptional, renderTo } from "./files.js";

/** Where pods mount the files. */
const MOUNT_PATH = "/etc/tollgate";
/** Built by deploy/docker/Dockerfile. */
const MODULE_IMAGE = "ghcr.io/tollgate/tollgate-envoy";

export const envoyHelp = `Usage: tollgate render envoy --config FILE --out DIR [options]

Writes the files with which an unmodified Envoy (1.38, 1.39 or 1.40) enforces the limits of the configuration: a complete
bootstrap, envoy.yaml, the script tollgate.lua of the dynamic module libtollgate.so, which decides from leases, and
secret-token.yaml with the token of the data planes. Envoy and the module read the last two again when they are replaced; they
are readable by their owner only. With --fragment, --istio or --envoy-gateway it writes only what an Envoy with other routes and
clusters needs in addition.

  --config FILE              the configuration
  --out DIR                  output folder; created if missing
  --service HOST:PORT        control listener of a service; repeat for several (default: from the configuration)
  --envoy-service HOST:PORT  with --mode rls: a service's listener for Envoy; repeat for several (default: envoy.listen)
  --fragment                 fragment.yaml: filters, clusters and settings to add to an existing configuration of Envoy
  --istio                    istio.yaml and secret.yaml: an EnvoyFilter for a gateway of Istio
  --envoy-gateway            envoy-gateway.yaml and secret.yaml: policies and an EnvoyProxy for Envoy Gateway 1.9
  --gateway NAME             the Gateway that is limited. Required with --envoy-gateway; with --istio the default is the label
                             istio: ingressgateway
  --namespace NAME           with --istio and --envoy-gateway: namespace of the resources and the Gateway (default: default)
  --listener NAME            with --envoy-gateway: a listener of the Gateway; repeat for several (default: http)
  --image NAME               with --envoy-gateway: image with the module (default: ${MODULE_IMAGE}, this version)
  --mode module|rls          module (default): decide in the dynamic module, from a lease of tokens that all workers of Envoy
                             share. rls (default with --istio): no module, Envoy calls the service for each request
  --dynamic                  listeners, routes and clusters in separate files, which Envoy reloads when they are replaced
  --resolve                  replace upstreams with dns by their current addresses, and list these in addresses.txt
  --path DIR                 the folder from which Envoy reads the files, if not --out. With --istio and --envoy-gateway:
                             where the pods mount the Secret (default: ${MOUNT_PATH})
  --listen HOST:PORT         address for clients (default: listen of the configuration)
  --node NAME                name of the node (default: envoy). Every Envoy appends a random suffix
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

Examples:
  tollgate render envoy --config tollgate.yaml --out /etc/envoy --service 10.0.0.5:9145
  tollgate render envoy --config tollgate.yaml --out /etc/envoy --mode rls --envoy-service 10.0.0.5:9147
`;

const optionSpecs = {
  ...commonOptions,
  "envoy-service": { type: "string", multiple: true },
  mode: textOption,
  fragment: flagOption,
  istio: flagOption,
  "envoy-gateway": flagOption,
  gateway: textOption,
  namespace: textOption,
  listener: { type: "string", multiple: true },
  image: textOption,
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
  const form = readForm(values);
  const kubernetes = readKubernetes(values, form);
  const { out, options } = readCommon(kubernetes === undefined ? values : { path: MOUNT_PATH, ...values });
  const mode = readMode(values, form);
  const all: EnvoyRenderOptions = {
    ...options,
    mode,
    form,
    kubernetes,
    dynamic: values.dynamic,
    envoyServices: values["envoy-service"] ?? [],
    admin: values.admin,
    maxConnections: readOptional("--max-connections", values["max-connections"], 10_000_000) ?? DEFAULT_CONNECTIONS,
    listen: values.listen,
    balancer: readBalancer(values),
    bundle: mode === "rls" ? "" : readBundle("envoy"),
  };
  return renderTo(out, values, (config) => renderEnvoy(config, all));
}

const LUA_REMOVED =
  "--mode lua: the Lua filter was removed. Leave out --mode and start Envoy with libtollgate.so (see ENVOY.md, Upgrading from 0.2), or use --mode rls where Envoy cannot load a module";

/** The image of Istio's proxy does not contain the module. */
function readMode({ mode }: Values, form: EnvoyForm): EnvoyRenderOptions["mode"] {
  if (mode === "lua") throw new UsageError(LUA_REMOVED);
  return readChoice("--mode", mode ?? (form === "istio" ? "rls" : "module"), ["module", "rls"]);
}

/** What Envoy's own configuration has, if it is not rendered. */
const BOOTSTRAP_ONLY = [
  "dynamic",
  "listen",
  "admin",
  "max-connections",
  "alb-idle",
  "health",
  "tls-certificate",
] as const;
const KUBERNETES_ONLY = ["gateway", "namespace", "listener", "image"] as const;

function readForm(values: Values): EnvoyForm {
  const forms = (["fragment", "istio", "envoy-gateway"] as const).filter((form) => values[form]);
  const [form = "bootstrap", other] = forms;
  if (other !== undefined) throw new UsageError(`--${form} and --${other} cannot be used together`);
  const misplaced = BOOTSTRAP_ONLY.find((option) => values[option] !== undefined && values[option] !== false);
  if (form !== "bootstrap" && misplaced !== undefined) {
    throw new UsageError(`--${misplaced}: with --${form}, your own configuration has it`);
  }
  return form;
}

function readKubernetes(values: Values, form: EnvoyForm): KubernetesOptions | undefined {
  if (form !== "istio" && form !== "envoy-gateway") {
    const given = KUBERNETES_ONLY.find((option) => values[option] !== undefined);
    if (given !== undefined) throw new UsageError(`--${given} requires --istio or --envoy-gateway`);
    return undefined;
  }
  const {
    gateway,
    namespace = "default",
    listener: listeners = [],
    image = `${MODULE_IMAGE}:${programVersion()}`,
  } = values;
  for (const [option, names] of Object.entries({ gateway: gateway ?? [], namespace, listener: listeners })) {
    const wrong = [names].flat().find((name) => !/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(name));
    if (wrong !== undefined) throw new UsageError(`--${option} ${wrong}: must be a name of Kubernetes`);
  }
  return { gateway, namespace, listeners, image };
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
