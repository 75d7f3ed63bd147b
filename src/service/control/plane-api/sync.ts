/** Answers sync messages of data planes: records what they spent and grants what they need. */

import type { BucketLimits } from "../../../core/app-limits.js";
import { MAX_TOKENS } from "../../../core/bucket.js";
import { OK, QUOTA_EXHAUSTED, UNKNOWN_APP } from "../../../core/codes.js";
import {
  degradationLevel,
  newDegradation,
  observeCall,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
} from "../../../core/degradation.js";
import { emergencyRatio } from "../../../core/emergency.js";
import { isLimitBucket, nodeInEpoch } from "../../../core/keys.js";
import { shardOf } from "../../../core/shard.js";
import { planeValues } from "../../../limiter/limits/plane-values.js";
import type { GrantRequest, Quota, ShardQuota } from "../../../quota/quota.js";
import { type PlaneBudgets, unboundedPlanes } from "../../../shared/access/plane-budgets.js";
import { type Clock, replyTimer, systemClock } from "../../../shared/clock.js";
import { StoreError } from "../../../store/errors.js";
import type { PlaneReport } from "../../metrics/reports.js";
import { badField, type Endpoint, endpoint, ok } from "../../operations/endpoint.js";
import { requireAmount, requireName, requireOwn } from "./plane-budget.js";
import { type SyncMessage, type SyncReply, syncReply, syncRequest, syncText } from "./sync-message.js";

export interface SyncHandlerOptions {
  quota: Pick<Quota, "shards">;
  /** Returns the same list until the configuration changes. */
  apps(): readonly BucketLimits[];
  /** The limits of a value's bucket, by its id; undefined if it belongs to no configured limit. */
  limitOf?(id: string): BucketLimits | undefined;
  configVersion(): string;
  /** Apps of all shards whose unused tokens are to be returned. */
  recalled(node: string): string[];
  /** The emergency as the service knows it. Used with several shards: some learn of it later than others. */
  emergency?(): { active: boolean; leftMs: number };
  timeoutMs(): number;
  /** The level that an operator pinned, if any. */
  pinnedLevel?(): number | undefined;
  /** Called after each message. Must not throw. */
  synced?(outcome: "ok" | "error" | "timeout", milliseconds: number, apps: number): void;
  /** Called with the counters of a data plane when its message is about to be answered. Must not throw. */
  counted?(node: string, epoch: number, report: PlaneReport): void;
  clock?: Pick<Clock, "now" | "startReplyTimer">;
}

export type SyncHandler = ReturnType<typeof createSyncHandler>;

/** Data planes ask again after this time whether an unknown app is configured. */
const UNKNOWN_APP_RETRY_MS = 1000;
const TOO_MANY_VALUES_RETRY_MS = 1000;

export function createSyncHandler(options: SyncHandlerOptions) {
  const { quota, clock = systemClock, pinnedLevel = () => undefined } = options;
  const limitOf = options.limitOf ?? (() => undefined);
  const { shards } = quota;
  /** Of each shard. */
  const degradations = shards.map(() => newDegradation());
  let listed: readonly BucketLimits[] | undefined;
  let configured = new Map<string, BucketLimits>();
  /** Removed apps: nodes may still hold their tokens. Grows only with the apps that operators remove. */
  const removed = new Map<string, BucketLimits>();

  function currentApps(): Map<string, BucketLimits> {
    const apps = options.apps();
    if (apps === listed) return configured;
    listed = apps;
    for (const [id, limits] of configured) removed.set(id, limits);
    configured = new Map(apps.map((app) => [app.id, app]));
    for (const id of configured.keys()) removed.delete(id);
    return configured;
  }

  /** The limits of the apps and values in a message, as far as they are configured. */
  function knownLimits({ apps: sent }: SyncMessage): Map<string, BucketLimits> {
    const apps = currentApps();
    const known = new Map<string, BucketLimits>();
    for (const { app: id } of sent) {
      const limits = apps.get(id) ?? limitOf(id);
      if (limits !== undefined) known.set(id, limits);
    }
    return known;
  }

  /** The degradation level of a shard, as it is sent to data planes. */
  const levelOf = (shard: number) =>
    pinnedLevel() ?? degradationLevel(degradations[shard] as (typeof degradations)[number], clock.now());

  /** Measures the store: data planes do not see it themselves. */
  async function measured<T>({ shard, apps: { length: apps } }: SyncMessage, call: () => Promise<T>): Promise<T> {
    const timer = replyTimer(clock);
    function record(outcome: number, name: "ok" | "error" | "timeout"): void {
      const tookMs = timer.end();
      observeCall(degradations[shard] as (typeof degradations)[number], clock.now(), outcome, tookMs);
      options.synced?.(name, tookMs, apps);
    }
    try {
      const reply = await call();
      record(STORE_OK, "ok");
      return reply;
    } catch (error) {
      if (error instanceof StoreError && error.kind === "timeout") record(STORE_TIMEOUT, "timeout");
      else if (error instanceof StoreError) record(STORE_ERROR, "error");
      else timer.end();
      throw error;
    }
  }

  /**
   * An app that is not configured is granted nothing. What the store's ledger of the node has of it is still reported, so
   * that spent tokens are charged and returned ones are credited. Ids that the ledger does not have are not stored.
   */
  async function requestsOf({ node, epoch, apps, shard }: SyncMessage, known: Map<string, BucketLimits>) {
    const hasUnknown = apps.some(({ app, granted, spent }) => !known.has(app) && granted + spent > 0);
    const ledger = hasUnknown
      ? await (shards[shard] as ShardQuota).ledger(nodeInEpoch(node, String(epoch)))
      : undefined;
    const inLedger = new Set(ledger?.apps.map(({ app }) => app));
    return apps.flatMap(({ app: id, need = 0, want = 0, final: finalReport, ...message }): GrantRequest[] => {
      const app = known.get(id);
      if (app !== undefined) return [{ ...message, app, need, want, finalReport }];
      if (!inLedger.has(id)) return [];
      return [{ ...message, app: removed.get(id) ?? anyLimits(id), need: 0, want: 0, finalReport }];
    });
  }

  async function callQuota(message: SyncMessage, known: Map<string, BucketLimits>) {
    const { node, epoch, seq, leave } = message;
    const shard = shards[message.shard] as ShardQuota;
    const sender = { node, epoch, seq };
    const requests = await requestsOf(message, known);
    const deadline = { deadlineMs: options.timeoutMs() };
    if (!leave) return shard.grant(sender, requests, deadline);
    const reply = await shard.report(sender, requests, true, deadline);
    const left = { code: OK, retryAfterMs: 0, scarce: false };
    return { ...reply, apps: reply.apps.map((one) => ({ ...one, ...left, limit: known.get(one.app)?.burst ?? 0 })) };
  }

  /** Rejects with a StoreError if the store fails, and with an InvalidArgument if it rejects a number. */
  async function handle(message: SyncMessage): Promise<SyncReply> {
    checkShard(message);
    // One list for the whole message: the configuration may change during the store call.
    const known = knownLimits(message);
    const reply = await measured(message, () => callQuota(message, known));
    const { node, epoch, numbers } = message;
    if (numbers !== undefined) options.counted?.(node, epoch, numbers);
    const ofShard = { active: reply.emergency, leftMs: reply.emergencyLeftMs };
    const emergency = shards.length > 1 ? (options.emergency?.() ?? ofShard) : ofShard;
    const byApp = new Map(reply.apps.map((one) => [one.app, one]));
    return {
      code: reply.code,
      live_nodes: reply.liveNodes,
      emergency: emergency.active,
      emergency_left_ms: emergency.leftMs,
      degradation: levelOf(message.shard),
      config_version: options.configVersion(),
      known: reply.known,
      recalled: options.recalled(node),
      apps: message.apps.flatMap(({ app, granted: before }): SyncReply["apps"] => {
        const one = byApp.get(app);
        const granted = one?.granted ?? before;
        const grant = Math.max(granted - before, 0);
        if (!known.has(app)) {
          // A rejected message has no result per app.
          if (reply.code !== OK) return [];
          const retry_after_ms = UNKNOWN_APP_RETRY_MS;
          return [{ app, code: UNKNOWN_APP, grant, granted, remaining: 0, limit: 0, retry_after_ms, scarce: true }];
        }
        if (one === undefined) return [];
        const { code, remaining, limit, retryAfterMs: retry_after_ms, scarce } = one;
        const { guaranteed, priority } = known.get(app)!;
        const rate = guaranteed * (emergency.active ? emergencyRatio(priority) : 1);
        return [{ app, code, grant, granted, remaining, limit, retry_after_ms, scarce, rate }];
      }),
    };
  }

  /** A data plane with another number of shards would create second buckets. */
  function checkShard({ shard, apps }: SyncMessage): void {
    const count = shards.length;
    if (shard >= count) throw badField("shard", `must be below ${count}, the number of shards`);
    const i = apps.findIndex(({ app }) => shardOf(app, count) !== shard);
    if (i !== -1)
      throw badField(`apps[${i}].app`, `belongs to another shard than ${shard}: render the data plane again`);
  }

  /** The highest level of all shards. */
  const level = () => Math.max(...shards.map((_, shard) => levelOf(shard)));

  return Object.assign(handle, { level });
}

/** Reply to a data plane that uses too many values: see `limiter/limits/plane-values.ts`. */
function refusedValue({ app }: SyncMessage["apps"][number]): SyncReply["apps"][number] {
  const numbers = { grant: 0, granted: 0, remaining: 0, limit: 0, retry_after_ms: TOO_MANY_VALUES_RETRY_MS };
  return { app, code: QUOTA_EXHAUSTED, ...numbers, scarce: true };
}

/** Each app or value of a message counts as so many bytes: that is what it costs the store, however short its line is. */
const APP_BYTES = 1_024;

/**
 * Messages of further nodes of a plane that has too many are rejected, and each epoch counts: the store has a ledger for it. New
 * values of a plane that uses too many are refused. Counters of values that it claims to use are not read: it repeats them.
 */
export function syncEndpoint(sync: SyncHandler, budgets: PlaneBudgets = unboundedPlanes): Endpoint {
  const values = planeValues(budgets);
  return endpoint("POST", "/v1/sync", "plane", {
    summary: "A data plane reports spent tokens and is granted new ones; as JSON or as plain text.",
    isShed: true,
    request: syncRequest,
    reply: syncReply,
    text: syncText,
    async handle({ body, access }) {
      const { node, epoch, shard } = body;
      requireOwn(access, node);
      requireAmount(budgets, access, "bytes", body.apps.length * APP_BYTES);
      requireName(budgets, access, "nodes", { name: nodeInEpoch(node, String(epoch)), scope: shard });
      const refused = body.apps.filter(({ app }) => !values.admits(access.name, app));
      if (refused.length === 0) return ok(await sync(body));
      const isRefused = new Set(refused);
      const reply = await sync({ ...body, apps: body.apps.filter((one) => !isRefused.has(one)) });
      const unused = refused.filter(({ granted, spent, returned }) => granted + spent + returned === 0);
      return ok({ ...reply, apps: [...reply.apps, ...unused.map(refusedValue)] });
    },
  });
}

/** The bucket of a value whose limit was removed expires after this time. */
const REMOVED_LIMIT_SECONDS = 86_400;

/** Limits for an app or value whose limits are not known any more: its bucket is not cut. */
function anyLimits(id: string): BucketLimits {
  const limits = { id, burst: MAX_TOKENS, guaranteed: 0, priority: 0, borrow: false };
  return isLimitBucket(id) ? { ...limits, fillSeconds: REMOVED_LIMIT_SECONDS } : limits;
}
