/** Maps the configuration to the options of the nginx and Envoy planes. */
import { createHash } from "node:crypto";
import { parseNetwork } from "../../core/address.js";
import type { LimitRules, ValueList } from "../../limit-rules/limit-rules.js";
import type { Config } from "../schema.js";
import { configVersion } from "../version.js";
import { camelCase } from "./camel-case.js";
import { appLimits, headerOptions, identityOptions, leaseOptions, limitRules, shardCount } from "./limiter.js";
import { pathRules } from "./path-rules.js";
import type {
  EnvoyOptions,
  NginxOptions,
  NginxSocketOptions,
  PlaneOptions,
  PlaneRoute,
  SocketRouteLimits,
} from "./plane-options.js";
import { routeProfile } from "./profiles.js";
import { routeName, slotLimits, upstreamOf, upstreamPods } from "./slots.js";

/** The planes use the encoding of digests that is simplest in their Lua. */
function planeOptions(config: Config, node: string, encoding: "base64" | "hex"): PlaneOptions {
  const digest = (key: string) => createHash("sha1").update(key).digest(encoding);
  const identity = identityOptions(config);
  return {
    node,
    configVersion: configVersion(config),
    lease: leaseOptions(config),
    timeoutMs: config.lease.timeout_ms,
    ...(config.fail_open_tokens === undefined ? {} : { failOpenTokens: config.fail_open_tokens }),
    identity: {
      appHeader: identity.appHeader.toLowerCase(),
      userHeader: identity.userHeader.toLowerCase(),
      apiKeyHeader: identity.apiKeyHeader.toLowerCase(),
      rules: identity.rules,
      forward: identity.forwardIdentity,
      apiKeys: Object.fromEntries(Object.entries(identity.apiKeys).map(([key, app]) => [digest(key), app])),
    },
    paths: pathRules(camelCase(config.request_limits), config.routes.length),
    headerCount: config.request_limits.header_count,
    headers: headerOptions(config),
    apps: appLimits(config),
    limits: planeRules(limitRules(config)),
    maxValues: config.rate_limit_values,
    trustedNetworks: config.identity.trusted_hops.flatMap((network) => parseNetwork(network) ?? []),
    shards: shardCount(config),
    routes: Object.fromEntries(
      config.routes.filter(hasOwnOptions).map((route) => [routeName(route), planeRoute(route)]),
    ),
  };
}

/** Whether the planes have to know which route a request takes, apart from its connections. */
export function hasOwnOptions({ profile, cost_header }: Config["routes"][number]): boolean {
  return profile !== undefined || cost_header !== undefined;
}

function planeRoute(route: Config["routes"][number]): PlaneRoute {
  const profile = routeProfile(route);
  const { cost_header: costHeader } = route;
  return {
    ...(profile === undefined ? {} : { profile }),
    ...(costHeader === undefined ? {} : { costHeader: costHeader.toLowerCase() }),
  };
}

/**
 * The rules as data. Lists and patterns have one character per byte; the renderer writes characters as UTF-8, so they become
 * text again.
 */
function planeRules({ rules, ...others }: LimitRules): LimitRules {
  const text = (bytes: string) => Buffer.from(bytes, "latin1").toString("utf8");
  const list = ({ texts, networks }: ValueList): ValueList => ({ texts: texts.map(text), networks });
  return {
    ...others,
    rules: rules.map((rule) => ({
      ...rule,
      allow: list(rule.allow),
      deny: list(rule.deny),
      match: {
        ...rule.match,
        headers: rule.match.headers.map(({ name, pattern }) => ({ name, pattern: pattern.map(text) })),
      },
    })),
  };
}

/**
 * Request headers that backends never get, in lower case: API keys, and other spellings of the identity headers, which CGI
 * and WSGI servers do not distinguish.
 */
export function hiddenHeaders({ identity }: Config): string[] {
  const names = [identity.app_header, identity.user_header, identity.api_key_header].map((name) => name.toLowerCase());
  const [app, user] = names;
  return [...new Set(names.flatMap(spellings))].filter((name) => name !== app && name !== user);
}

/** With a hyphen or an underscore in each place. */
function spellings(name: string): string[] {
  const [first = "", ...parts] = name.split(/[-_]/);
  return parts.reduce((starts, part) => starts.flatMap((start) => [`${start}-${part}`, `${start}_${part}`]), [first]);
}

/** Every route that accepts connections, with its limits and distinct pods. */
function socketRoutes(config: Config) {
  const limits = slotLimits(config.routes, config.upstreams);
  return config.routes.flatMap((route) => {
    const { connections, upstream } = route;
    const slots = limits.get(routeName(route));
    if (connections === undefined || slots === undefined) return [];
    const { passive } = upstreamOf(config, route);
    const own: SocketRouteLimits = {
      ...slots,
      protocols: connections.protocols.map((protocol) => protocol.toLowerCase()),
      downMs: passive.down_ms,
    };
    const pods = [...new Set(upstreamPods(config, upstream))];
    return [{ name: routeName(route), upstream, tolerated: passive.failures, limits: own, pods }];
  });
}

/** What the rendered nginx configuration adds to the options. An empty node: nginx names the node itself. */
export interface NginxPlaneFacts extends Pick<NginxOptions, "node" | "planeToken" | "services" | "serviceTls"> {
  /** The nginx upstream block of the n-th pod of an upstream. */
  podUpstream(upstream: string, index: number): string;
  /** Open files of a worker; 0 if nginx has its own configuration. */
  openFiles(sockets: NginxSocketOptions): number;
}

export function nginxOptions(
  config: Config,
  { node, planeToken, services, serviceTls, podUpstream, openFiles }: NginxPlaneFacts,
): NginxOptions {
  const connections = {
    responseMs: config.timeouts.response_ms,
    shutdownMs: config.timeouts.shutdown_ms,
    routes: socketRoutes(config).map(({ limits, name, upstream, tolerated, pods }) => ({
      ...limits,
      name,
      upstream,
      tolerated,
      pods,
      podUpstreams: Object.fromEntries(pods.map((pod, i) => [pod, podUpstream(upstream, i)])),
    })),
  };
  return {
    ...planeOptions(config, node, "base64"),
    planeToken,
    hiddenHeaders: hiddenHeaders(config),
    services,
    serviceTls,
    connections,
    openFiles: openFiles(connections),
  };
}

/** What the rendered Envoy configuration adds to the options. */
export type EnvoyPlaneFacts = Pick<EnvoyOptions, "node" | "cluster">;

export function envoyOptions(config: Config, { node, cluster }: EnvoyPlaneFacts): EnvoyOptions {
  return {
    ...planeOptions(config, node, "hex"),
    cluster,
    hasRoutes: config.routes.some(hasOwnOptions),
    connectMs: config.timeouts.connect_ms,
    responseMs: config.timeouts.response_ms,
    bodyBytes: config.request_limits.body_bytes,
    bodyPatienceMs: patience(config, [config.timeouts.response_ms]),
    upgradePatienceMs: patience(
      config,
      config.routes.map(({ connections }) => connections?.idle_ms ?? 0),
    ),
    socketRoutes: socketRoutes(config).map(({ limits, ...route }) => ({ ...limits, ...route })),
  };
}

/** Envoy ends streams that are idle for longer than its timeouts, also if they wait for tokens. */
const LARGEST_SHARE_OF_IDLE_TIME = 0.9;

/** How long a body waits without tokens, before Envoy's timeouts. A timeout of 0 is none. */
function patience({ timeouts }: Config, idleMs: readonly number[]): number {
  const shortest = Math.min(...idleMs.filter((milliseconds) => milliseconds > 0));
  return Math.min(timeouts.body_idle_ms, Math.floor(shortest * LARGEST_SHARE_OF_IDLE_TIME));
}
