/** The proxy's options in force. Replaced as a whole on reload; running exchanges keep the options they started with. */
import { pathRules } from "../../config/options/path-rules.js";
import {
  defaultConnections,
  defaultLimits,
  defaultTimeouts,
  type ProxyOptions,
  type Route,
  type Timeouts,
} from "../../config/options/proxy.js";
import type { CostProfile } from "../../core/cost.js";
import { createAddressMatcher } from "../../shared/addresses.js";
import type { Log } from "../../shared/log.js";
import type { Overload } from "../../shared/overload.js";
import type { Certificates } from "../../shared/tls/certificates.js";
import type { ConnectionAdmission } from "../../slots/connection-admission.js";
import type { Concurrency } from "./http/concurrency.js";
import { nameMatcher } from "./http/header-kinds.js";
import type { Admission } from "./http/request-admission.js";
import { createRouteTable } from "./http/routes.js";
import type { Tracing } from "./http/tracing.js";
import { targetNameOf, Upstream, type UpstreamContext } from "./upstream/upstream.js";

/** Fields must not contain raw control characters. */
export type ProxyLog = Pick<Log, "info" | "warn">;

export interface Deciders {
  admission: Admission;
  /** Without it upgrades get 501. */
  upgrades?: ConnectionAdmission;
}

export interface CreateProxyOptions extends ProxyOptions, Deciders {
  log: ProxyLog;
  /** Without it nothing is refused because of overload. */
  overload?: Pick<Overload, "sheds" | "isActive">;
  /** Connections to all targets together. Default: no limit. */
  maxUpstreams?: number | undefined;
  /** Gets the certificates for upstreams. */
  certificates?: Certificates | undefined;
  /** Without it nothing is traced. */
  tracing?: Tracing | undefined;
}

/** State that all exchanges and tunnels of a proxy share. */
export interface Shared {
  readonly log: ProxyLog;
  /** Time for timeouts, advanced by the proxy's timer. It stands still while the process is paused, so nothing times out then. */
  clockMs: number;
  draining: boolean;
  readonly tracing: Tracing | undefined;
  /** Running exchanges by client address. */
  readonly clients: Concurrency;
  /** Admitted exchanges by app. */
  readonly apps: Concurrency;
}

export type ConnectionRules = ReturnType<typeof rulesOf>;

interface Destination {
  upstream: Upstream;
  profile?: CostProfile;
  /** In lower case. */
  costHeader?: string;
  connections?: ConnectionRules;
}

export type OptionsInForce = ReturnType<typeof putInForce>;

interface OptionsContext extends Pick<UpstreamContext, "log" | "clock" | "pools" | "tlsClients"> {
  /** Targets of upstreams that are not listed in the configuration. */
  discovered: ReadonlyMap<string, string[]>;
  maxUpstreams?: number | undefined;
}

/** Throws for invalid options before anything is changed. Targets that stay are taken over from `before`. */
export function putInForce(
  given: ProxyOptions & Deciders,
  { discovered, maxUpstreams = Number.POSITIVE_INFINITY, ...context }: OptionsContext,
  before?: { upstreams: ReadonlyMap<string, Upstream> },
) {
  const limits = { ...defaultLimits, ...given.limits };
  const timeouts = { ...defaultTimeouts, ...given.timeouts };
  const isTrusted = createAddressMatcher(given.trustedHops ?? []);
  const isIdentityHeader = nameMatcher(given.identityHeaders ?? []);
  const named = Object.entries(given.upstreams).map(([name, options]) => {
    if (options.targets?.length === 0) throw new Error(`upstream "${name}" has no targets`);
    return { name, options, targets: (options.targets ?? discovered.get(name) ?? []).map(targetNameOf) };
  });
  for (const { path, upstream } of given.routes) {
    if (!Object.hasOwn(given.upstreams, upstream)) {
      throw new Error(`route ${path}: unknown upstream "${upstream}"`);
    }
  }
  const headerBytes = Math.max(limits.headerBytes, defaultLimits.headerBytes);
  const targetCount = named.reduce((count, { targets }) => count + targets.length, 0);
  const maxConnections = Math.max(Math.floor(maxUpstreams / Math.max(targetCount, 1)), 1);
  const poolOptions = { ...context, connectMs: timeouts.connectMs, headerBytes, maxConnections };
  const upstreams = new Map(
    named.map((one) => [one.name, new Upstream(one, poolOptions, before?.upstreams.get(one.name))]),
  );
  // The same object for all routes to an upstream without options of their own: the route table compares them.
  const plain = new Map([...upstreams].map(([name, upstream]): [string, Destination] => [name, { upstream }]));
  const routes = createRouteTable(given.routes, (route): Destination => {
    const destination = plain.get(route.upstream)!;
    const { connections, profile, costHeader } = route;
    if (connections === undefined && profile === undefined && costHeader === undefined) return destination;
    return {
      ...destination,
      ...(costHeader === undefined ? {} : { costHeader: costHeader.toLowerCase() }),
      ...(profile === undefined ? {} : { profile }),
      ...(connections === undefined ? {} : { connections: rulesOf(route, timeouts) }),
    };
  });
  const { admission, upgrades } = given;
  // `given` is for the next reload.
  const paths = pathRules(limits, given.routes.length);
  return { admission, upgrades, limits, paths, timeouts, routes, isTrusted, isIdentityHeader, upstreams, given };
}

function rulesOf({ name, host = "", path, connections = {} }: Route, timeouts: Timeouts) {
  const { protocols, idleMs, pingMs } = { ...defaultConnections, ...connections };
  return {
    /** The name under which slots are taken. */
    route: name ?? `${host}${path}`,
    /** In lower case. */
    protocols: new Set(protocols.map((protocol) => protocol.toLowerCase())),
    idleMs,
    pingMs,
    /** Time for the second peer to close after the first. */
    lingerMs: timeouts.lingerMs,
    /** Close the connection if buffered bytes are not read for this long. */
    stalledMs: timeouts.bodyIdleMs,
  };
}

/** Interval of the timer that checks timeouts: an eighth of the shortest. */
export function tickFor({ timeouts, given }: OptionsInForce): number {
  const idle = given.routes
    .flatMap(({ connections }) => [connections?.idleMs ?? 0, connections?.pingMs ?? 0])
    .filter((ms) => ms > 0);
  const { responseMs, bodyIdleMs, bodyRateMs, queueMs } = timeouts;
  return Math.min(Math.max(Math.floor(Math.min(responseMs, bodyIdleMs, bodyRateMs, queueMs, ...idle) / 8), 10), 1_000);
}
