/** The connection API for data planes: acquires, renews and releases slots with the limits of this service. */
import * as z from "zod";
import { INVALID_ARGUMENT, SLOT_SUCCESS, UNKNOWN_APP } from "../../../core/codes.js";
import { connectionRetryAfter, reachedLimit } from "../../../core/refusals.js";
import { MAX_BATCH } from "../../../scripts/common/slots.js";
import { mapConcurrently } from "../../../shared/concurrently.js";
import type { RouteLimits } from "../../../slots/limits.js";
import type { SlotKeeperObserver } from "../../../slots/slot-keeper-options.js";
import type { SlotName, Slots } from "../../../slots/slots.js";
import { ok, problem, type Reply } from "../../operations/reply.js";
import { bind, describe, type Endpoint } from "../endpoint.js";
import {
  type AcquireRequest,
  acquireKind,
  acquireReply,
  acquireRequest,
  type CountsRequest,
  countsKind,
  countsReply,
  countsRequest,
  type HeldRequest,
  heldKind,
  heldRequest,
  type MessageKind,
  readMessage,
  releaseReply,
  renewReply,
} from "./connection-messages.js";
import { BadField } from "./fields.js";
import { atomicReply, atomicRequest, runAtomic } from "./redis-atomic.js";

export interface ConnectionApiOptions {
  slots: Slots;
  /** The limits by route name, all with one lease. The first is the default. */
  routes(): ReadonlyMap<string, RouteLimits>;
  /** The configured app that is charged; undefined if the app is refused. */
  appOf(name: string): string | undefined;
  timeoutMs(): number;
  observer?: Pick<SlotKeeperObserver, "decided">;
  /** From 0 to 1, for Retry-After. */
  random?: () => number;
}

/** Enough for 10,000 connections with long names. */
const MOST_BODY_BYTES = 4 * 1024 * 1024;
const CALLS_AT_ONCE = 4;
const TEXT = "text/plain; charset=utf-8";
const path = (name: string) => `/v1/connections/${name}`;
const either = (schema: z.ZodType) => ({ "application/json": schema, "text/plain": z.string() });
const again = "Retry with the same connection, or release it: the slot may have been acquired.";

const calls = {
  acquire: describe({
    method: "POST",
    path: path("acquire"),
    role: "plane",
    reply: acquireReply,
    raw: either(acquireRequest),
    summary: "Acquires a slot for a new connection, on a given pod or the least loaded of several.",
    others: { 503: { summary: `The store does not ok. ${again}` } },
  }),
  renew: describe({
    method: "POST",
    path: path("renew"),
    role: "plane",
    reply: renewReply,
    raw: either(heldRequest),
    summary: "Renews the leases of a proxy's connections. Without connections it is a heartbeat.",
    mostBodyBytes: MOST_BODY_BYTES,
  }),
  release: describe({
    method: "POST",
    path: path("release"),
    role: "plane",
    reply: releaseReply,
    raw: either(heldRequest),
    summary: "Releases the slots of closed connections. Idempotent.",
    mostBodyBytes: MOST_BODY_BYTES,
  }),
  counts: describe({
    method: "POST",
    path: path("counts"),
    role: "plane",
    reply: countsReply,
    raw: either(countsRequest),
    summary: "Counts all connections, and those on the given pods.",
  }),
  atomic: describe({
    method: "POST",
    path: "/redis/atomic",
    role: "plane",
    reply: atomicReply,
    raw: either(atomicRequest),
    summary: "Slot operations for proxies that use Redis keys.",
  }),
} as const;

export function connectionEndpoints(options: ConnectionApiOptions): Endpoint[] {
  const { slots, routes, appOf, observer = {}, random = Math.random } = options;
  const deadline = () => ({ deadlineMs: options.timeoutMs() });

  function limitsOf(route?: string): { name: string; limits: RouteLimits } | { refusal: Reply } {
    for (const [name, limits] of routes()) if (route === undefined || route === name) return { name, limits };
    if (route === undefined) {
      const detail = "no configured route has connections";
      return { refusal: problem(404, "not_found", "no_connections", { detail }) };
    }
    const reason = "route must be the host and path of a route with connections";
    return { refusal: problem(400, INVALID_ARGUMENT, reason, { field: "route" }) };
  }

  async function acquire(asked: AcquireRequest): Promise<{ json: z.output<typeof acquireReply> } | { refusal: Reply }> {
    const found = limitsOf(asked.route);
    if ("refusal" in found) return found;
    const { name: route, limits } = found;
    const { proxy, connection, reclaim, memory, pod: only } = asked;
    if ((only === undefined) === (asked.pods === undefined)) {
      return { refusal: problem(400, INVALID_ARGUMENT, "pods must be given, or pod instead", { field: "pods" }) };
    }
    const pods = asked.pods ?? [only ?? ""];
    const app = appOf(asked.app);
    const started = performance.now();
    const request = { proxy, connection, app: app ?? "", pods, reclaim, incarnation: String(memory) };
    const made =
      app === undefined
        ? { allowed: false, code: UNKNOWN_APP, count: 0, pod: "", retryAfterMs: 0, incarnation: "0" }
        : await slots.acquire(request, limits, deadline());
    const { allowed, code, count, pod } = made;
    const milliseconds = performance.now() - started;
    observer.decided?.({ allowed, code, route, app: app ?? "", pod, withoutStore: false, milliseconds });
    return {
      json: {
        allowed,
        code,
        count,
        pod,
        limit: reachedLimit(code, limits),
        retry_after: allowed ? 0 : connectionRetryAfter(code, made.retryAfterMs, random()),
        lease_ms: limits.leaseMs,
        memory: Number(made.incarnation),
      },
    };
  }

  /** Splits the connections into store calls and combines their replies. */
  async function inBatches(
    { connections }: HeldRequest,
    call: (batch: SlotName[]) => Promise<{ done: number; without: string[] }>,
  ): Promise<{ done: number; without: string[] }> {
    const known = connections.map(({ connection, pod, app }) => ({ connection, pod, app: appOf(app) ?? app }));
    const batches: SlotName[][] = [];
    for (let i = 0; i < known.length; i += MAX_BATCH) batches.push(known.slice(i, i + MAX_BATCH));
    const sum = { done: 0, without: [] as string[] };
    await mapConcurrently(batches.length === 0 ? [[]] : batches, CALLS_AT_ONCE, async (batch) => {
      const { done, without } = await call(batch);
      sum.done += done;
      sum.without.push(...without);
    });
    return sum;
  }

  async function renew(request: HeldRequest) {
    const found = limitsOf();
    if ("refusal" in found) return found;
    const { leaseMs } = found.limits;
    let memory = 0;
    const { done, without } = await inBatches(request, async (batch) => {
      const answered = await slots.renew(request.proxy, leaseMs, batch, deadline());
      memory = Number(answered.incarnation);
      return { done: answered.renewed, without: answered.lost };
    });
    return { json: { renewed: done, lost: without, lease_ms: leaseMs, memory } };
  }

  async function release(request: HeldRequest) {
    const found = limitsOf();
    if ("refusal" in found) return found;
    const { done, without } = await inBatches(request, async (batch) => {
      const answered = await slots.release(request.proxy, found.limits.leaseMs, batch, deadline());
      return { done: answered.released, without: answered.unknown };
    });
    return { json: { released: done, unknown: without } };
  }

  async function counts({ pods }: CountsRequest) {
    const found = limitsOf();
    if ("refusal" in found) return found;
    const { total, rejected, perPod } = await slots.counts(pods, found.limits.leaseMs);
    return { json: { total, rejected, pods: Object.fromEntries(perPod) } };
  }

  async function atomic(asked: z.output<typeof atomicRequest>) {
    const found = limitsOf();
    if ("refusal" in found) return found;
    try {
      return { json: await runAtomic(asked, { slots, limits: found.limits, deadline: deadline() }) };
    } catch (error) {
      if (!(error instanceof BadField)) throw error;
      return { refusal: problem(400, INVALID_ARGUMENT, error.message, { field: error.field }) };
    }
  }

  const successLine = (...values: (string | number)[]) =>
    [1, values[0] ?? 0, SLOT_SUCCESS, ...values.slice(1)].join(" ");
  return [
    bind(calls.acquire, (call) =>
      answerIn(acquireKind, call, acquire, (made) => [
        [
          made.allowed ? 1 : 0,
          made.count,
          made.code,
          made.pod === "" ? "-" : made.pod,
          made.retry_after,
          made.lease_ms,
          made.memory,
        ].join(" "),
      ]),
    ),
    bind(calls.renew, (call) =>
      answerIn(heldKind, call, renew, ({ renewed, lost, lease_ms, memory }) => [
        successLine(renewed, lease_ms, memory),
        ...lost,
      ]),
    ),
    bind(calls.release, (call) =>
      answerIn(heldKind, call, release, ({ released, unknown }) => [successLine(released), ...unknown]),
    ),
    bind(calls.counts, (call) =>
      answerIn(countsKind, call, counts, ({ total, rejected, pods }) => [
        successLine(total, rejected),
        ...Object.entries(pods).map(([pod, count]) => `${pod} ${count}`),
      ]),
    ),
    bind(calls.atomic, (call) => answerIn(atomicKind, call, atomic, (list) => [list.join(" ")])),
  ];
}

/** `operation key arg …` on one line. */
const atomicKind: MessageKind<z.output<typeof atomicRequest>> = {
  schema: atomicRequest,
  fromText([line = ""]) {
    const [operation, key, ...args] = line.split(" ").filter((word) => word !== "");
    return { operation, key, args };
  },
};

/** Parses the message, calls `act`, and replies in the format of the message. */
async function answerIn<T, A>(
  kind: MessageKind<T>,
  { mediaType, text }: { mediaType: string; text: string },
  act: (message: T) => Promise<{ json: A } | { refusal: Reply }>,
  lines: (answered: A) => string[],
): Promise<Reply> {
  const message = readMessage(kind, mediaType, text);
  if ("refusal" in message) return message.refusal;
  const answered = await act(message.value);
  if ("refusal" in answered) return answered.refusal;
  if (mediaType !== "text/plain") return ok(answered.json);
  return ok(`${lines(answered.json).join("\n")}\n`, { mediaType: TEXT });
}
