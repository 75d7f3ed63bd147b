/** The proxy's options in force. Replaced as a whole on reload; running exchanges keep the options they started with. */
import type { Pool } from "undici";
import type { Limits, ProxyOptions, Route, Timeouts, UpstreamOptions } from "../../config/options/proxy.js";
import { type AddressMatcher, createAddressMatcher } from "../../shared/addresses.js";
import type { ConnectionAdmission } from "../../slots/admission.js";
import type { Admission } from "./http/admission.js";
import { createRouteTable, type RouteTable } from "./http/routes.js";
import { type Deciders, defaultLimits, defaultTimeouts, type ProxyLog } from "./options.js";
import { createUpstream, type TargetName, targetNameOf, type Upstream } from "./upstream/upstream.js";

export interface Destination {
  readonly upstream: Upstream;
  readonly connections?: ConnectionRules;
}

export interface ConnectionRules {
  /** The name under which slots are taken. */
  readonly route: string;
  /** In lower case. */
  readonly protocols: ReadonlySet<string>;
  readonly idleMs: number;
  readonly pingMs: number;
  /** Time for the second peer to close after the first. */
  readonly lingerMs: number;
  /** Close the connection if buffered bytes are not read for this long. */
  readonly stalledMs: number;
}

export interface Settings {
  readonly admission: Admission;
  readonly upgrades: ConnectionAdmission | undefined;
  readonly limits: Limits;
  readonly timeouts: Timeouts;
  readonly routes: RouteTable<Destination>;
  readonly isTrusted: AddressMatcher;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  /** As given, for the next reload. */
  readonly given: ProxyOptions & Deciders;
}

export interface SettingsContext {
  log: ProxyLog;
  now(): number;
  pools: Set<Pool>;
  /** Targets of upstreams that are not listed in the configuration. */
  discovered: ReadonlyMap<string, string[]>;
}

/** Throws for invalid options before anything is changed. Targets that stay are taken over from `before`. */
export function createSettings(
  given: ProxyOptions & Deciders,
  { log, now, pools, discovered }: SettingsContext,
  before?: Settings,
): Settings {
  const limits = { ...defaultLimits, ...given.limits };
  const timeouts = { ...defaultTimeouts, ...given.timeouts };
  const isTrusted = createAddressMatcher(given.trustedHops ?? []);
  const named = Object.entries(given.upstreams).map(([name, options]) => ({
    name,
    options,
    targets: targetsOf(name, options, discovered),
  }));
  for (const { path, upstream } of given.routes) {
    if (!Object.hasOwn(given.upstreams, upstream)) {
      throw new Error(`route ${path}: unknown upstream "${upstream}"`);
    }
  }
  const headerBytes = Math.max(limits.headerBytes, defaultLimits.headerBytes);
  const upstreams = new Map<string, Upstream>();
  const context = { connectMs: timeouts.connectMs, headerBytes, log, now, pools };
  for (const one of named) upstreams.set(one.name, createUpstream(one, context, before?.upstreams.get(one.name)));
  // The same object for all routes without connections to an upstream: the route table compares them.
  const plain = new Map([...upstreams].map(([name, upstream]): [string, Destination] => [name, { upstream }]));
  const routes = createRouteTable(given.routes, (route): Destination => {
    const destination = plain.get(route.upstream)!;
    return route.connections === undefined ? destination : { ...destination, connections: rulesOf(route, timeouts) };
  });
  const { admission, upgrades } = given;
  return { admission, upgrades, limits, timeouts, routes, isTrusted, upstreams, given };
}

function targetsOf(
  name: string,
  { targets }: UpstreamOptions,
  discovered: ReadonlyMap<string, string[]>,
): TargetName[] {
  if (targets?.length === 0) throw new Error(`upstream "${name}" has no targets`);
  return (targets ?? discovered.get(name) ?? []).map(targetNameOf);
}

function rulesOf({ name, host = "", path, connections = {} }: Route, timeouts: Timeouts): ConnectionRules {
  const { protocols = ["websocket"], idleMs = 0, pingMs = 30_000 } = connections;
  return {
    route: name ?? `${host}${path}`,
    protocols: new Set(protocols.map((protocol) => protocol.toLowerCase())),
    idleMs,
    pingMs,
    lingerMs: timeouts.lingerMs,
    stalledMs: timeouts.bodyIdleMs,
  };
}

/** Called when other options are in force. */
export function retire({ upstreams }: Settings): void {
  for (const upstream of upstreams.values()) upstream.release();
}

/** Interval of the timer that checks timeouts: an eighth of the shortest. */
export function tickFor({ timeouts, given }: Settings): number {
  const spans = [timeouts.responseMs, timeouts.bodyIdleMs];
  for (const { connections } of given.routes) {
    if (connections?.idleMs !== undefined && connections.idleMs > 0) spans.push(connections.idleMs);
  }
  return Math.min(Math.max(Math.floor(Math.min(...spans) / 8), 10), 1_000);
}
