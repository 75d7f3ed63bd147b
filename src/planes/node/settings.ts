/** One state of the configuration, made as a whole or not at all; whatever began with it ends with it. */
import type { Pool } from "undici";
import type { Limits, ProxyOptions, Route, Timeouts, UpstreamOptions } from "../../config/options/proxy-options.js";
import { type AddressMatcher, createAddressMatcher } from "../../shared/addresses.js";
import type { Admission, Verdict } from "./http/admission.js";
import { createRouteTable, type RouteTable } from "./http/routes.js";
import { type Deciders, defaultLimits, defaultTimeouts, type ProxyLog, type Upgrades } from "./options.js";
import { createUpstream, type TargetName, targetNameOf, type Upstream } from "./upstream/upstream.js";

/** Where a route leads. */
export interface Destination {
  readonly upstream: Upstream;
  readonly connections?: ConnectionRules;
}

export interface ConnectionRules {
  /** By which whoever keeps the slots knows it. */
  readonly route: string;
  /** In lower case. */
  readonly protocols: ReadonlySet<string>;
  readonly idleMs: number;
  readonly pingMs: number;
  /** For one end to close after the other. */
  readonly lingerMs: number;
  /** Without a byte moving though somebody has some to give. */
  readonly stalledMs: number;
}

export interface Settings<V extends Verdict> {
  readonly admission: Admission<V>;
  readonly upgrades: Upgrades<V> | undefined;
  readonly limits: Limits;
  readonly timeouts: Timeouts;
  readonly routes: RouteTable<Destination>;
  readonly isTrusted: AddressMatcher;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  /** As it was told, for the next state. */
  readonly told: ProxyOptions & Deciders<V>;
}

export interface SettingsRoom {
  log: ProxyLog;
  now(): number;
  pools: Set<Pool>;
  /** Targets of upstreams that have none of their own. */
  discovered: ReadonlyMap<string, string[]>;
}

/** Throws for what makes no sense, before anything was changed. Targets that stay are taken over from `before`. */
export function createSettings<V extends Verdict>(
  told: ProxyOptions & Deciders<V>,
  { log, now, pools, discovered }: SettingsRoom,
  before?: Settings<V>,
): Settings<V> {
  const limits = { ...defaultLimits, ...told.limits };
  const timeouts = { ...defaultTimeouts, ...told.timeouts };
  const isTrusted = createAddressMatcher(told.trustedHops ?? []);
  const named = Object.entries(told.upstreams).map(([name, options]): [string, UpstreamOptions, TargetName[]] => [
    name,
    options,
    targetsOf(name, options, discovered),
  ]);
  for (const { path, upstream } of told.routes) {
    if (!path.startsWith("/")) throw new Error(`a route's path begins with a slash, unlike "${path}"`);
    if (!Object.hasOwn(told.upstreams, upstream)) {
      throw new Error(`route ${path} leads to "${upstream}", which is no upstream`);
    }
  }
  const headerBytes = Math.max(limits.headerBytes, defaultLimits.headerBytes);
  const upstreams = new Map<string, Upstream>();
  for (const [name, options, targets] of named) {
    const settings = { connectMs: timeouts.connectMs, headerBytes, log, now, pools };
    upstreams.set(name, createUpstream(name, targets, options, settings, before?.upstreams.get(name)));
  }
  // Routes without connections that have an upstream in common lead to the same place.
  const plain = new Map([...upstreams].map(([name, upstream]): [string, Destination] => [name, { upstream }]));
  const routes = createRouteTable(told.routes, (route): Destination => {
    const destination = plain.get(route.upstream)!;
    return route.connections === undefined ? destination : { ...destination, connections: rulesOf(route, timeouts) };
  });
  const { admission, upgrades } = told;
  return { admission, upgrades, limits, timeouts, routes, isTrusted, upstreams, told };
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

/** A state is no longer in force. */
export function retire<V extends Verdict>({ upstreams }: Settings<V>): void {
  for (const upstream of upstreams.values()) upstream.release();
}

/** How often to look at the time: fine enough for the shortest timeout, and no finer. */
export function tickFor<V extends Verdict>({ timeouts, told }: Settings<V>): number {
  const spans = [timeouts.responseMs, timeouts.bodyIdleMs];
  for (const { connections } of told.routes) {
    if (connections?.idleMs !== undefined && connections.idleMs > 0) spans.push(connections.idleMs);
  }
  return Math.min(Math.max(Math.floor(Math.min(...spans) / 8), 10), 1_000);
}
