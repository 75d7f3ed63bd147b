/** One shard: app buckets (L2) and its part of the cluster's (L1), one typed call per script. Calls can be repeated safely. */

import type { BucketLimits } from "../core/app-limits.js";
import { MICRO } from "../core/bucket.js";
import { INVALID_ARGUMENT, OK } from "../core/codes.js";
import { appKey, clusterKey, ledgerKey, nodeInEpoch, nodesKey, operationKey, recallChannel } from "../core/keys.js";
import type { ScriptName } from "../scripts/catalog.js";
import type { Share } from "../scripts/common/share.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";
import { InvalidArgument, StoreError } from "../store/errors.js";
import type { RunOptions, Store } from "../store/store.js";
import type {
  ClusterLimits,
  CopiedEmergency,
  GrantRequest,
  NodeReply,
  ReportRequest,
  Sender,
  ShareRound,
} from "./shard-contract.js";

const FINAL_REPORT = 2;
/** Values in a reply to a node before those of the apps. */
const HEAD = 5;

export type ReconcileResult = ReturnType<typeof reconcileResult>;

export type ShardQuota = ReturnType<typeof createShardQuota>;

export type ShardState = Awaited<ReturnType<ShardQuota["read"]>>;

const ONLY_READ: ShareRound = { round: 0, owner: "" };

/** Attempts of a reconcile, which fails if the set of nodes changes meanwhile. */
const RECONCILE_ATTEMPTS = 5;

const isOutOfMemory = (error: unknown) => error instanceof StoreError && error.kind === "out_of_memory";

/** What a shard needs. */
export interface ShardQuotaOptions {
  store: Pick<Store, "run" | "subscribe">;
  cluster: ClusterLimits;
  /** The hash tag of the shard. */
  tag: string;
  /** By how many a node divides limits without the store, of the live nodes that the shard knows. */
  partsFor(node: string, liveNodes: number): number;
}

export function createShardQuota({ store, cluster, tag, partsFor }: ShardQuotaOptions) {
  let clusterArgs = clusterArguments(cluster);
  const keys = {
    cluster: clusterKey(tag),
    nodes: nodesKey(tag),
    app: (app: string) => appKey(tag, app),
    ledger: (node: string) => ledgerKey(tag, node),
    operation: (id: string) => operationKey(tag, id),
  };

  function run(script: ScriptName, scriptKeys: string[], args: RedisValue[], options?: RunOptions) {
    return store.run(script, scriptKeys, [...clusterArgs, ...args], options).then((reply) => {
      if (reply[0] === INVALID_ARGUMENT) throw new InvalidArgument(script, text(reply, 1));
      return reply;
    });
  }

  const nameOf = (sender: { node: string; epoch: number }) => nodeInEpoch(sender.node, String(sender.epoch));

  function nodeKeys(sender: Sender, requests: ReportRequest[]): string[] {
    const apps = requests.map((request) => keys.app(request.app.id));
    return [keys.cluster, keys.nodes, keys.ledger(nameOf(sender)), ...apps];
  }

  function reportArguments(sender: Sender, requests: ReportRequest[], leave: boolean): RedisValue[] {
    return [sender.seq, nameOf(sender), leave ? 1 : 0, ...requests.flatMap(messageArguments)];
  }

  async function nodes() {
    const reply = await run("nodes", [keys.cluster, keys.nodes], []);
    return chunks(reply, 1, 3).map((chunk) => ({
      node: text(chunk, 0),
      silentMs: number(chunk, 1),
      alive: chunk[2] === 1,
    }));
  }

  function nodeReply(reply: ScriptReply, { node }: { node: string }): NodeReply {
    return {
      code: text(reply, 0),
      liveNodes: partsFor(node, number(reply, 1)),
      emergency: reply[2] === 1,
      emergencyLeftMs: number(reply, 3),
      known: reply[4] !== 0,
    };
  }

  return {
    /** Applies from the next call on. */
    reconfigure(limits: Omit<ClusterLimits, "id" | "shards">): void {
      clusterArgs = clusterArguments({ ...cluster, ...limits });
    },

    /**
     * Records the counters of a node and grants tokens. There are no grants unless the code is "ok". A store that is out of memory
     * grants nothing, but the counters are recorded: otherwise the spending of that time would be charged at once after it.
     */
    async grant(sender: Sender, requests: GrantRequest[], options?: RunOptions) {
      const args: RedisValue[] = [sender.seq, nameOf(sender)];
      for (const request of requests) {
        args.push(
          ...messageArguments(request),
          request.need,
          request.want,
          request.finalReport ? FINAL_REPORT : request.app.borrow ? 1 : 0,
        );
      }
      const called = nodeKeys(sender, requests);
      const reply = await run("grant", called, args, options).catch(async (error: unknown) => {
        if (isOutOfMemory(error)) await run("report-known", called, reportArguments(sender, requests, false), options);
        throw error;
      });
      const apps = chunkStarts(reply, HEAD, 6).map((at, i) => ({
        app: requests[i]?.app.id ?? "",
        code: text(reply, at),
        granted: number(reply, at + 1),
        remaining: number(reply, at + 2),
        limit: number(reply, at + 3),
        retryAfterMs: number(reply, at + 4),
        scarce: reply[at + 5] === 1,
      }));
      return { ...nodeReply(reply, sender), apps };
    },

    /** Records the counters of a node without granting. `leave` ends its epoch and returns its tokens. */
    async report(sender: Sender, requests: ReportRequest[], leave: boolean, options?: RunOptions) {
      const args = reportArguments(sender, requests, leave);
      const called = nodeKeys(sender, requests);
      const reply = await run("report", called, args, options).catch((error: unknown) => {
        if (!isOutOfMemory(error)) throw error;
        return run("report-known", called, args, options);
      });
      const apps = chunks(reply, HEAD, 2).map((chunk, i) => ({
        app: requests[i]?.app.id ?? "",
        granted: number(chunk, 0),
        remaining: number(chunk, 1),
      }));
      return { ...nodeReply(reply, sender), apps };
    },

    async heartbeat(sender: { node: string; epoch: number }): Promise<NodeReply> {
      const name = nameOf(sender);
      return nodeReply(await run("heartbeat", [keys.cluster, keys.nodes, keys.ledger(name)], [name]), sender);
    },

    /** Calls `recalled` with an app, or "*" for all, whenever nodes are asked to return tokens. Rejects like a store call. */
    onRecall: (recalled: (app: string) => void) => store.subscribe(recallChannel(keys.cluster), recalled),

    nodes,

    /** Nodes as `nodes` returns them, each with the tokens that it holds over all apps. */
    async holdings() {
      const known = await nodes();
      const reply = await store.run("holdings", [keys.cluster, ...known.map(({ node }) => keys.ledger(node))], []);
      return known.map((entry, i) => ({ ...entry, held: number(reply, i + 1) }));
    },

    /** The counters of a node in the store; `node` as returned by `nodes`. */
    async ledger(node: string) {
      const reply = await store.run("node-ledger", [keys.ledger(node)], []);
      const fields = new Map(chunks(reply, 0, 2).map((pair) => [text(pair, 0), text(pair, 1)]));
      const value = (field: string) => Number(fields.get(field) ?? 0);
      const ids = [...fields.keys()].filter((field) => field.startsWith("g:")).map((field) => field.slice(2));
      const apps = ids.sort().map((app) => ({
        app,
        granted: value(`g:${app}`),
        spent: value(`s:${app}`),
        returned: value(`r:${app}`),
      }));
      return { seq: value("seq"), closed: fields.get("closed") === "1", held: value("held"), apps };
    },

    /** The balances of an app in tokens, with fractions. */
    async inspect(app: BucketLimits) {
      const reply = await run("inspect", [keys.cluster, keys.app(app.id)], appArguments(app));
      return {
        tokens: number(reply, 1) / MICRO,
        debt: number(reply, 2) / MICRO,
        clusterTokens: number(reply, 3) / MICRO,
        granted: number(reply, 4),
        spent: number(reply, 5),
        returned: number(reply, 6),
        emergency: reply[7] === 1,
        emergencyLeftMs: number(reply, 8),
      };
    },

    async borrow(app: BucketLimits, amount: number, operation: string) {
      const args = [...appArguments(app), app.borrow ? 1 : 0, amount];
      const reply = await run("borrow", [keys.cluster, keys.app(app.id), keys.operation(operation)], args);
      return { code: text(reply, 0), ...numbers(reply, ["borrowed", "debt", "remaining", "borrowable"]) };
    },

    /** Adds tokens to the bucket, as far as they fit. */
    async credit(app: BucketLimits, amount: number, operation: string) {
      const args = [...appArguments(app), amount];
      const reply = await run("credit", [keys.cluster, keys.app(app.id), keys.operation(operation)], args);
      return { code: text(reply, 0), ...numbers(reply, ["added", "remaining"]) };
    },

    async repay(app: BucketLimits, amount: number, operation: string) {
      const args = [...appArguments(app), amount];
      const reply = await run("repay", [keys.cluster, keys.app(app.id), keys.operation(operation)], args);
      return { code: text(reply, 0), ...numbers(reply, ["repaid", "debt", "remaining"]) };
    },

    /** Fills L1 and counts anew what nodes hold of these apps, which must be all of this shard. */
    async refill(apps: string[], operation: string) {
      const scriptKeys = [keys.cluster, keys.operation(operation), ...apps.map(keys.app)];
      const reply = await run("cluster-refill", scriptKeys, []);
      const { levelBefore, heldBefore, level, held } = numbers(reply, ["levelBefore", "heldBefore", "level", "held"]);
      return { before: { tokens: levelBefore / MICRO, held: heldBefore }, after: { tokens: level / MICRO, held } };
    },

    /** `durationMs` 0: no end. */
    async emergencyOn(durationMs: number, reason: string, operator: string, operation: string) {
      const args = [durationMs, reason, operator];
      const reply = await run("emergency-on", [keys.cluster, keys.operation(operation)], args);
      return { changed: reply[1] === 1, sinceMs: number(reply, 2), untilMs: number(reply, 3) };
    },

    async emergencyOff(operation: string) {
      const reply = await run("emergency-off", [keys.cluster, keys.operation(operation)], []);
      return { changed: reply[1] === 1 };
    },

    /** @param all of all shards, if there are several: usage from 0 to 1, and whether one could not pay an own rate */
    async emergencyCheck(cooldownMs: number, automatic: boolean, all = { usage: 0, ownShort: false }) {
      const args = [cooldownMs, automatic ? 1 : 0, Math.floor(all.usage * MICRO), all.ownShort ? 1 : 0];
      const reply = await run("emergency-check", [keys.cluster], args);
      return {
        active: reply[1] === 1,
        changed: reply[2] === 1,
        source: text(reply, 3),
        sinceMs: number(reply, 4),
        leftMs: number(reply, 5),
        usage: number(reply, 6) / MICRO,
        reason: text(reply, 7),
        operator: text(reply, 8),
        burstsStopped: reply[9] === 1,
      };
    },

    /** Takes over the emergency of the first shard. */
    async emergencyCopy(from: CopiedEmergency, options?: RunOptions): Promise<void> {
      const { active, sinceMs, leftMs, burstsStopped, source, reason, operator } = from;
      const args = [active ? 1 : 0, sinceMs, leftMs, burstsStopped ? 1 : 0, source, reason, operator];
      await run("emergency-copy", [keys.cluster], args, options);
    },

    /** The state of the shard. A `round` begins here: earlier ones cannot change the share any more. */
    async read({ round, owner } = ONLY_READ, options?: RunOptions) {
      const reply = await run("shard-read", [keys.cluster], [round, owner], options);
      return {
        /** False: a later round has begun, or another owner runs this one. */
        begun: reply[0] === OK,
        round: number(reply, 1),
        share: { capacity: number(reply, 2), rate: number(reply, 3) },
        tokens: number(reply, 4) / MICRO,
        held: number(reply, 5),
        taken: number(reply, 6),
        refused: number(reply, 7),
        largestRefused: number(reply, 8),
        emergency: reply[9] === 1,
        source: text(reply, 10),
        sinceMs: number(reply, 11),
        leftMs: number(reply, 12),
        reason: text(reply, 13),
        operator: text(reply, 14),
        burstsStopped: reply[15] === 1,
        /** The shard could not pay an app's own rate in the last second. */
        ownShort: reply[16] === 1,
        reserve: number(reply, 17) / MICRO,
        writtenOff: number(reply, 18),
      };
    },

    /** Sets the share, in a round that has begun here. Returns the actual one: the capacity may stay higher. */
    async setShare({ round, owner }: ShareRound, share: Share, options?: RunOptions) {
      const reply = await run("share-set", [keys.cluster], [round, share.capacity, share.rate, owner], options);
      return { changed: reply[0] === OK, share: { capacity: number(reply, 1), rate: number(reply, 2) } };
    },

    /** Corrects the bucket of one app. Undefined: the set of nodes changed during every attempt. */
    async reconcile(
      app: BucketLimits,
      how: { tolerance: number; force: boolean; operation: string },
    ): Promise<ReconcileResult | undefined> {
      for (let attempt = 0; attempt < RECONCILE_ATTEMPTS; attempt++) {
        const names = (await nodes()).map((entry) => entry.node);
        const scriptKeys = [keys.cluster, keys.app(app.id), keys.nodes, keys.operation(how.operation)];
        const args = [...appArguments(app), Math.round(how.tolerance * MICRO), how.force ? 1 : 0, ...names];
        const reply = await run("reconcile", [...scriptKeys, ...names.map(keys.ledger)], args);
        if (reply.length > 1) return reconcileResult(reply);
      }
      return undefined;
    },
  };
}

/** The drift is a fraction of the expected tokens. */
function reconcileResult(reply: ScriptReply) {
  const result = numbers(reply, [
    "correctionsMade",
    "driftBefore",
    "driftAfter",
    "expectedTokens",
    "actualTokens",
    "correction",
    "recoveredTokens",
    "deadNodes",
  ]);
  return { ...result, driftBefore: result.driftBefore / MICRO, driftAfter: result.driftAfter / MICRO };
}

/** Names the numbers of a reply, starting after its code. */
function numbers<K extends string>(reply: ScriptReply, names: K[]): Record<K, number> {
  return Object.fromEntries(names.map((name, i) => [name, number(reply, i + 1)])) as Record<K, number>;
}

function number(reply: ScriptReply, index: number): number {
  return Number(reply[index] ?? 0);
}

function text(reply: ScriptReply, index: number): string {
  return String(reply[index] ?? "");
}

/** Splits the reply, starting at `from`, into chunks of `width`. */
function chunks(reply: ScriptReply, from: number, width: number): ScriptReply[] {
  return chunkStarts(reply, from, width).map((at) => reply.slice(at, at + width));
}

/** Where the chunks of `width` begin. */
function chunkStarts(reply: ScriptReply, from: number, width: number): number[] {
  const starts: number[] = [];
  for (let at = from; at + width <= reply.length; at += width) starts.push(at);
  return starts;
}

/** Scripts take rates in whole micro-tokens per second, rounded down so that no limit is exceeded. */
function microRate(tokensPerSecond: number): number {
  return Math.floor(tokensPerSecond * MICRO);
}

function clusterArguments({ capacity, rate, nodeTtlMs, shards = 1 }: ClusterLimits): number[] {
  return [capacity, microRate(rate), nodeTtlMs, shards];
}

function messageArguments({ app, granted, spent, returned }: ReportRequest): (string | number)[] {
  return [...appArguments(app), granted, spent, returned];
}

function appArguments({ id, burst, guaranteed, priority, fillSeconds = 0 }: BucketLimits): (string | number)[] {
  // Rounded up, so that no limit is exceeded.
  return [id, burst, fillSeconds === 0 ? microRate(guaranteed) : 0, priority, Math.ceil(fillSeconds * 1e6)];
}
