/**
 * `POST /redis/atomic`: slot operations for proxies that use Redis keys. Only the listed operations on the listed keys;
 * the reply is a list that begins with 1 or 0, a count and a code. The keys below are those of the first route with
 * connections; keys of a certain route begin with `ws:{<cluster>/<route>}:` instead of `ws:`.
 *
 * acquire    ws:pod_conn:<pod>             max, connection, proxy    acquires a slot; max can only lower the route's limit
 * release    ws:pod_conn:<pod>             connection, proxy         frees it
 * renew      ws:pod_conn:<pod>             proxy, connection …       then 1 or 0 for each; 0: the lease is lost
 * heartbeat  ws:proxy:<proxy>:heartbeat                              marks the proxy as alive
 * count      ws:pod_conn:<pod> · ws:global_conn · ws:rejected        number of connections
 */
import * as z from "zod";
import { SLOT_SUCCESS } from "../../../core/codes.js";
import { DEFAULT_APP } from "../../../core/identity.js";
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
const POD_KEY = /^ws:pod_conn:([A-Za-z0-9._:[\]-]{1,256})$/;
const HEARTBEAT_KEY = /^ws:proxy:([A-Za-z0-9._:-]{1,128}):heartbeat$/;
const TAG = /^ws:\{([^}]*)\}:/;

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
  const { route, limits } = routeOf(fullKey, options);
  const key = fullKey.replace(TAG, "ws:");
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
      if (proxy === undefined) throw badField("key", "must be ws:proxy:<proxy>:heartbeat");
      exactly(args, []);
      await slots.renew(ownProxy(proxy), leaseMs, [], deadline);
      return [1, 0, SLOT_SUCCESS];
    }
    case "count": {
      exactly(args, []);
      if (key === "ws:global_conn") return [1, (await slots.counts([], leaseMs)).total, SLOT_SUCCESS];
      if (key === "ws:rejected") return [1, (await slots.counts([], leaseMs)).rejected, SLOT_SUCCESS];
      const pod = POD_KEY.exec(key)?.[1];
      if (pod !== undefined) return [1, await countOn(slots, pod, leaseMs), SLOT_SUCCESS];
      throw badField("key", "must be ws:pod_conn:<pod>, ws:global_conn or ws:rejected");
    }
  }
}

function routeOf(key: string, { slots, routes, name, limits }: AtomicOptions) {
  const tag = TAG.exec(key)?.[1];
  if (tag === undefined) return { route: name, limits };
  for (const [route, own] of routes) if (slots.tagOf(route) === tag) return { route, limits: own };
  throw badField("key", "names no route with connections: must begin with ws: or ws:{<cluster>/<route>}:");
}

async function countOn(slots: Slots, pod: string, leaseMs: number): Promise<number> {
  return (await slots.counts([pod], leaseMs)).perPod.get(pod) ?? 0;
}

function podOf(key: string): string {
  const pod = POD_KEY.exec(key)?.[1];
  if (pod === undefined) throw badField("key", "must be ws:pod_conn:<pod>");
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
