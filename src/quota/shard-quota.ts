/** One shard: app buckets (L2) and its part of the cluster's (L1), one typed call per operation. Calls can be repeated safely. */

import type { BucketLimits } from "../core/app-limits.js";
import { MICRO } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { appKey, clusterKey, ledgerKey, nodeInEpoch, nodesKey, operationKey, recallChannel } from "../core/keys.js";
import type { ScriptName } from "../scripts/catalog.js";
import type { Share, ShareRound } from "../scripts/common/share.js";
import { FINAL_REPORT } from "../scripts/grant.js";
import { StoreError } from "../store/errors.js";
import { callOperation, type OperationCall, type OperationReply } from "../store/operations.js";
import type { RunOptions, Store } from "../store/store.js";
import type {
  ClusterLimits,
  CopiedEmergency,
  GrantRequest,
  NodeReply,
  ReportRequest,
  Sender,
} from "./shard-contract.js";

export type ReconcileResult = Omit<OperationReply<"reconcile">, "code">;

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
  let limits = clusterValues(cluster);
  const clusterOf = clusterKey(tag);
  const nodesOf = nodesKey(tag);
  const ledgerOf = (node: string) => ledgerKey(tag, node);
  const operationOf = (id: string) => operationKey(tag, id);
  const nameOf = (sender: { node: string; epoch: number }) => nodeInEpoch(sender.node, String(sender.epoch));

  const call = <N extends ScriptName>(name: N, what: OperationCall<NoInfer<N>>, options?: RunOptions) =>
    callOperation(store, name, what, options);

  /** What all messages of a node about apps begin with. */
  function messageOf(sender: Sender, requests: ReportRequest[]) {
    const node = nameOf(sender);
    const { clusterCapacity, clusterRate, nodeTtlMs, shards } = limits;
    return {
      keys: { cluster: clusterOf, nodes: nodesOf, ledger: ledgerOf(node) },
      moreKeys: requests.map(({ app }) => appKey(tag, app.id)),
      values: { clusterCapacity, clusterRate, nodeTtlMs, shards, seq: sender.seq, node },
    };
  }

  function reportOf(sender: Sender, requests: ReportRequest[], leave: boolean): OperationCall<"report"> {
    const message = messageOf(sender, requests);
    return { ...message, values: { ...message.values, leave }, items: requests.map((request) => itemOf(request)) };
  }

  /** An operation on an app, which is repeated with the same id. */
  function commandFor(app: BucketLimits, operation: string) {
    return {
      keys: { cluster: clusterOf, app: appKey(tag, app.id), operation: operationOf(operation) },
      values: { ...limits, ...appValues(app) },
    };
  }

  function nodeReply(reply: OperationReply<"heartbeat">, { node }: { node: string }): NodeReply {
    const { code, liveNodes, emergency, emergencyLeftMs, known } = reply;
    return { code, liveNodes: partsFor(node, liveNodes), emergency, emergencyLeftMs, known };
  }

  async function nodes() {
    return (await call("nodes", { keys: { cluster: clusterOf, nodes: nodesOf }, values: limits })).items;
  }

  return {
    /** Applies from the next call on. */
    reconfigure(changed: Omit<ClusterLimits, "id" | "shards">): void {
      limits = clusterValues({ ...cluster, ...changed });
    },

    /**
     * Records the counters of a node and grants tokens. There are no grants unless the code is "ok". A store that is out of memory
     * grants nothing, but the counters are recorded: otherwise the spending of that time would be charged at once after it.
     */
    async grant(sender: Sender, requests: GrantRequest[], options?: RunOptions) {
      const items = requests.map((request) => {
        const borrow = request.finalReport ? FINAL_REPORT : Number(request.app.borrow);
        return itemOf(request, request.need, request.want, borrow);
      });
      const granted = call("grant", { ...messageOf(sender, requests), items }, options);
      const reply = await granted.catch(async (error: unknown) => {
        if (isOutOfMemory(error)) await call("report-known", reportOf(sender, requests, false), options);
        throw error;
      });
      return { ...nodeReply(reply, sender), apps: ofApps(requests, reply.items) };
    },

    /** Records the counters of a node without granting. `leave` ends its epoch and returns its tokens. */
    async report(sender: Sender, requests: ReportRequest[], leave: boolean, options?: RunOptions) {
      const message = reportOf(sender, requests, leave);
      const reply = await call("report", message, options).catch((error: unknown) => {
        if (!isOutOfMemory(error)) throw error;
        return call("report-known", message, options);
      });
      return { ...nodeReply(reply, sender), apps: ofApps(requests, reply.items) };
    },

    async heartbeat(sender: { node: string; epoch: number }): Promise<NodeReply> {
      const node = nameOf(sender);
      const keys = { cluster: clusterOf, nodes: nodesOf, ledger: ledgerOf(node) };
      return nodeReply(await call("heartbeat", { keys, values: { ...limits, node } }), sender);
    },

    /** Calls `recalled` with an app, or "*" for all, whenever nodes are asked to return tokens. Rejects like a store call. */
    onRecall: (recalled: (app: string) => void) => store.subscribe(recallChannel(clusterOf), recalled),

    nodes,

    /** Nodes as `nodes` returns them, each with the tokens that it holds over all apps. */
    async holdings() {
      const known = await nodes();
      const moreKeys = known.map(({ node }) => ledgerOf(node));
      const { items } = await call("holdings", { keys: { cluster: clusterOf }, moreKeys, values: {} });
      return known.map((entry, i) => ({ ...entry, held: items[i]?.held ?? 0 }));
    },

    /** The counters of a node in the store; `node` as returned by `nodes`. */
    async ledger(node: string) {
      const { items } = await call("node-ledger", { keys: { ledger: ledgerOf(node) }, values: {} });
      const fields = new Map(items.map(({ field, value }) => [field, value]));
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
    inspect(app: BucketLimits) {
      const keys = { cluster: clusterOf, app: appKey(tag, app.id) };
      return call("inspect", { keys, values: { ...limits, ...appValues(app) } });
    },

    borrow(app: BucketLimits, amount: number, operation: string) {
      const { keys, values } = commandFor(app, operation);
      return call("borrow", { keys, values: { ...values, borrow: app.borrow, amount } });
    },

    /** Adds tokens to the bucket, as far as they fit. */
    credit(app: BucketLimits, amount: number, operation: string) {
      const { keys, values } = commandFor(app, operation);
      return call("credit", { keys, values: { ...values, amount } });
    },

    repay(app: BucketLimits, amount: number, operation: string) {
      const { keys, values } = commandFor(app, operation);
      return call("repay", { keys, values: { ...values, amount } });
    },

    /** Fills L1 and recounts what nodes hold of these apps, which must be all of this shard. */
    async refill(apps: string[], operation: string) {
      const keys = { cluster: clusterOf, operation: operationOf(operation) };
      const moreKeys = apps.map((app) => appKey(tag, app));
      const reply = await call("cluster-refill", { keys, moreKeys, values: limits });
      const { levelBefore, heldBefore, level, held } = reply;
      return { before: { tokens: levelBefore, held: heldBefore }, after: { tokens: level, held } };
    },

    /** `durationMs` 0: no end. */
    emergencyOn(durationMs: number, reason: string, operator: string, operation: string) {
      const keys = { cluster: clusterOf, operation: operationOf(operation) };
      return call("emergency-on", { keys, values: { ...limits, durationMs, reason, operator } });
    },

    emergencyOff: (operation: string) =>
      call("emergency-off", { keys: { cluster: clusterOf, operation: operationOf(operation) }, values: limits }),

    /** @param all of all shards, if there are several: usage from 0 to 1, and whether one could not pay an own rate */
    emergencyCheck(cooldownMs: number, automatic: boolean, { usage, ownShort } = { usage: 0, ownShort: false }) {
      const values = { ...limits, cooldownMs, automatic, usage: Math.floor(usage * MICRO), ownShort };
      return call("emergency-check", { keys: { cluster: clusterOf }, values });
    },

    /** Takes over the emergency of the first shard. */
    async emergencyCopy(emergency: CopiedEmergency, options?: RunOptions): Promise<void> {
      const values = { ...limits, ...emergency };
      await call("emergency-copy", { keys: { cluster: clusterOf }, values }, options);
    },

    /** The state of the shard. A `round` begins here: earlier ones cannot change the share any more. */
    async read({ round, owner } = ONLY_READ, options?: RunOptions) {
      const values = { ...limits, round, owner };
      const reply = await call("shard-read", { keys: { cluster: clusterOf }, values }, options);
      const { code, shareCapacity, shareRate, ...state } = reply;
      // Not begun: a later round has begun, or another owner runs this one.
      return { ...state, begun: code === OK, share: { capacity: shareCapacity, rate: shareRate } };
    },

    /** Sets the share, in a round that has begun here. Returns the actual one: the capacity may stay higher. */
    async setShare({ round, owner }: ShareRound, share: Share, options?: RunOptions) {
      const values = { ...limits, round, ...share, owner };
      const reply = await call("share-set", { keys: { cluster: clusterOf }, values }, options);
      return { changed: reply.code === OK, share: { capacity: reply.capacity, rate: reply.rate } };
    },

    /** Corrects the bucket of one app. Undefined: the set of nodes changed during every attempt. */
    async reconcile(
      app: BucketLimits,
      how: { tolerance: number; force: boolean; operation: string },
    ): Promise<ReconcileResult | undefined> {
      const { keys, values } = commandFor(app, how.operation);
      for (let attempt = 0; attempt < RECONCILE_ATTEMPTS; attempt++) {
        const listed = await nodes();
        const { code, ...result } = await call("reconcile", {
          keys: { ...keys, nodes: nodesOf },
          moreKeys: listed.map(({ node }) => ledgerOf(node)),
          values: { ...values, tolerance: Math.round(how.tolerance * MICRO), force: how.force },
          items: listed,
        });
        if (code === OK) return result;
      }
      return undefined;
    },
  };
}

/** The replies about apps, which are in the order of the requests. */
function ofApps<R extends object>(requests: ReportRequest[], replies: R[]) {
  return replies.map((reply, i) => Object.assign(reply, { app: requests[i]?.app.id ?? "" }));
}

/** Scripts take rates in whole micro-tokens per second, rounded down so that no limit is exceeded. */
function microRate(tokensPerSecond: number): number {
  return Math.floor(tokensPerSecond * MICRO);
}

function clusterValues({ capacity, rate, nodeTtlMs, shards = 1 }: ClusterLimits) {
  return { clusterCapacity: capacity, clusterRate: microRate(rate), nodeTtlMs, shards };
}

function appValues({ id, burst, guaranteed, priority, fillSeconds = 0 }: BucketLimits) {
  // Rounded up, so that no limit is exceeded.
  const fillUs = Math.ceil(fillSeconds * 1e6);
  return { id, burst, guaranteed: fillSeconds === 0 ? microRate(guaranteed) : 0, priority, fillUs };
}

/** What a message says about an app, in one literal: it is made for each app of each message. */
function itemOf({ app, granted, spent, returned }: ReportRequest, need = 0, want = 0, borrow = 0) {
  const { id, burst, guaranteed, priority, fillUs } = appValues(app);
  return { id, burst, guaranteed, priority, fillUs, granted, spent, returned, need, want, borrow };
}
