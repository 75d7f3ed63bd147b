/**
 * `POST /redis/atomic`: slot operations for proxies that use Redis keys. Only the listed operations on the listed keys;
 * the reply is a list that begins with 1 or 0, a count and a code. Keys with the common prefix belong to the first route with
 * connections; keys of another route have its prefix, with its tag.
 *
 * acquire    pod                       max, connection, proxy    acquires a slot; max can only lower the route's limit
 * release    pod                       connection, proxy         frees it
 * renew      pod                       proxy, connection …       then 1 or 0 for each; 0: the lease is lost
 * heartbeat  heartbeat                                           marks the proxy as alive
 * count      pod · all · rejected                                number of connections
 */
import * as z from "zod";
import { SLOT_SUCCESS } from "../../../core/codes.js";
import { DEFAULT_APP } from "../../../core/identity.js";
import {
  allConnectionsKey,
  CONNECTIONS_PREFIX,
  connectionPrefix,
  podKey,
  proxyHeartbeatKey,
  rejectedKey,
} from "../../../core/keys.js";
import { isIdentifier } from "../../../core/platform.js";
import { MAX_BATCH } from "../../../scripts/common/slots.js";
import type { RouteLimits } from "../../../slots/route-limits.js";
import type { RouteSlots, Slots } from "../../../slots/slots.js";
import type { RunOptions } from "../../../store/store.js";
import { badField } from "../../operations/endpoint.js";
import { words } from "./text.js";

/** Includes the aliases of the documentation. */
const operations = ["acquire", "check_and_increment", "release", "decrement", "renew", "heartbeat", "count"] as const;

export const atomicRequest = z.strictObject({
  operation: z.enum(operations),
  key: z.string().max(2_000),
  args: z
    .array(z.union([z.string(), z.number()], { error: "must be a string or a number" }))
    .max(MAX_BATCH + 1)
    .default([]),
});

export const atomicReply = z
  .array(z.union([z.string(), z.number()]))
  .describe('1 or 0, a count, and a code: [1, 67, "SUCCESS"].');

export const atomicText = {
  /** `operation key arg …` on one line. */
  parse([line]: string[]): unknown {
    const [operation, key, ...args] = words(line);
    return { operation, key, args };
  },
  format: (reply: AtomicReply) => [reply.join(" ")],
};

type AtomicReply = z.output<typeof atomicReply>;

const MOST_CONNECTIONS = 1_000_000_000;
/** The keys of the first route with connections. */
const KEYS = {
  pod: podKey(CONNECTIONS_PREFIX, "<pod>"),
  heartbeat: proxyHeartbeatKey(CONNECTIONS_PREFIX, "<proxy>"),
  all: allConnectionsKey(CONNECTIONS_PREFIX),
  rejected: rejectedKey(CONNECTIONS_PREFIX),
};
const POD_KEY = new RegExp(`^${podKey(CONNECTIONS_PREFIX, "([A-Za-z0-9._:[\\]-]{1,256})")}$`);
const HEARTBEAT_KEY = new RegExp(`^${proxyHeartbeatKey(CONNECTIONS_PREFIX, "([A-Za-z0-9._:-]{1,128})")}$`);

export interface AtomicOptions {
  slots: RouteSlots;
  routes: ReadonlyMap<string, RouteLimits>;
  /** The default route and its limits. */
  name: string;
  limits: RouteLimits;
  /** Throws a Rejected if the caller may not act for this proxy. */
  requireOwnProxy(proxy: string): void;
  /** Throws a Rejected if the pod is not a target of the route. */
  requirePod?(route: string, pod: string): void;
}

/** Throws a Rejected before it changes anything. */
export async function runAtomic(
  { operation, key: fullKey, args }: z.output<typeof atomicRequest>,
  options: AtomicOptions,
  deadline: RunOptions,
): Promise<AtomicReply> {
  const { route, limits, key } = routeOf(fullKey, options);
  const slots = options.slots.of(route);
  const { leaseMs } = limits;
  const ownProxy = (proxy: string) => {
    options.requireOwnProxy(proxy);
    return proxy;
  };
  switch (operation) {
    case "acquire":
    case "check_and_increment": {
      const pod = podOf(key);
      const [max, connection, proxy] = exactly(args, ["max", "connection", "proxy"]);
      options.requirePod?.(route, pod);
      const maxPerPod = Math.min(wholeOf(max, 0), limits.maxPerPod);
      const request = {
        proxy: ownProxy(idOf(proxy, 2)),
        connection: idOf(connection, 1),
        app: DEFAULT_APP,
        pods: [pod],
      };
      const { allowed, count, code } = await slots.acquire(request, { ...limits, maxPerPod }, deadline);
      return [allowed ? 1 : 0, count, code];
    }
    case "release":
    case "decrement": {
      const pod = podOf(key);
      const [connection, proxy] = exactly(args, ["connection", "proxy"]);
      const ended = { connection: idOf(connection, 0), pod, app: DEFAULT_APP };
      await slots.release(ownProxy(idOf(proxy, 1)), leaseMs, [ended], deadline);
      return [1, await countOn(slots, pod, leaseMs), SLOT_SUCCESS];
    }
    case "renew": {
      const pod = podOf(key);
      const [proxy, ...connections] = args;
      const held = connections.map((one, i) => ({ connection: idOf(one, i + 1), pod, app: DEFAULT_APP }));
      const { renewed, lost } = await slots.renew(ownProxy(idOf(proxy, 0)), leaseMs, held, deadline);
      const gone = new Set(lost);
      return [1, renewed, SLOT_SUCCESS, ...held.map(({ connection }) => (gone.has(connection) ? 0 : 1))];
    }
    case "heartbeat": {
      const proxy = HEARTBEAT_KEY.exec(key)?.[1];
      if (proxy === undefined) throw badField("key", `must be ${KEYS.heartbeat}`);
      exactly(args, []);
      await slots.renew(ownProxy(proxy), leaseMs, [], deadline);
      return [1, 0, SLOT_SUCCESS];
    }
    case "count": {
      exactly(args, []);
      if (key === KEYS.all) return [1, (await slots.counts([], leaseMs)).total, SLOT_SUCCESS];
      if (key === KEYS.rejected) return [1, (await slots.counts([], leaseMs)).rejected, SLOT_SUCCESS];
      const pod = POD_KEY.exec(key)?.[1];
      if (pod !== undefined) return [1, await countOn(slots, pod, leaseMs), SLOT_SUCCESS];
      throw badField("key", `must be ${KEYS.pod}, ${KEYS.all} or ${KEYS.rejected}`);
    }
  }
}

/** The route, its limits, and the key as one of the first route. */
function routeOf(key: string, { slots, routes, name, limits }: AtomicOptions) {
  if (!key.startsWith(`${CONNECTIONS_PREFIX}{`)) return { route: name, limits, key };
  for (const [route, own] of routes) {
    const prefix = connectionPrefix(slots.tagOf(route));
    if (key.startsWith(prefix)) return { route, limits: own, key: CONNECTIONS_PREFIX + key.slice(prefix.length) };
  }
  const tagged = connectionPrefix("<cluster>/<route>");
  throw badField("key", `names no route with connections: must begin with ${CONNECTIONS_PREFIX} or ${tagged}`);
}

async function countOn(slots: Slots, pod: string, leaseMs: number): Promise<number> {
  return (await slots.counts([pod], leaseMs)).perPod.get(pod) ?? 0;
}

function podOf(key: string): string {
  const pod = POD_KEY.exec(key)?.[1];
  if (pod === undefined) throw badField("key", `must be ${KEYS.pod}`);
  return pod;
}

function exactly(args: AtomicReply, names: string[]): AtomicReply {
  if (args.length === names.length) return args;
  throw badField("args", names.length === 0 ? "must be empty" : `must be ${names.join(", ")}`);
}

function idOf(value: string | number | undefined, at: number): string {
  const text = String(value ?? "");
  if (isIdentifier(text)) return text;
  throw badField(`args[${at}]`, "must be 1 to 128 of A–Z a–z 0–9 . _ : -");
}

function wholeOf(value: string | number | undefined, at: number): number {
  const number = /^[0-9]{1,10}$/.test(String(value)) ? Number(value) : Number.NaN;
  if (number <= MOST_CONNECTIONS) return number;
  throw badField(`args[${at}]`, `must be a whole number from 0 to ${MOST_CONNECTIONS}`);
}
