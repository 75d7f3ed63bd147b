/** L2 and L1 as the service uses them: one typed call per script. Every call may be repeated with the same ids. */

import { INVALID_ARGUMENT } from "../core/codes.js";
import { appKey, clusterKey, ledgerKey, nodeInEpoch, nodesKey, operationKey } from "../core/keys.js";
import type { LeaseMessage } from "../core/lease.js";
import type { BucketLimits } from "../core/limits.js";
import type { ScriptName } from "../scripts/catalog.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";
import { RefusedArgument } from "../store/refused-argument.js";
import type { RunOptions, Store } from "../store/store.js";
import { appArguments, type ClusterPolicy, clusterArguments } from "./policy.js";

/** A node in one life of it. `seq` counts its messages from 1; a message that is sent again keeps its number. */
export interface Sender {
  node: string;
  epoch: number;
  seq: number;
}

export interface GrantRequest extends LeaseMessage {
  app: BucketLimits;
  /** Nothing is held and nothing asked for: from here on the node's counters of this app begin at zero. */
  lastWord?: boolean;
}

export type ReportRequest = Omit<GrantRequest, "need" | "want" | "lastWord">;

const LAST_WORD = 2;

/** What every node learns from every answer. */
export interface NodeAnswer {
  code: string;
  liveNodes: number;
  emergency: boolean;
  emergencyLeftMs: number;
}

export interface AppGrant {
  app: string;
  code: string;
  /** Cumulative in the node's epoch. */
  granted: number;
  remaining: number;
  limit: number;
  retryAfterMs: number;
}

export interface ReconcileResult {
  correctionsMade: number;
  /** As a part of what the bucket should hold. */
  driftBefore: number;
  driftAfter: number;
  expectedTokens: number;
  actualTokens: number;
  correction: number;
  recoveredTokens: number;
  deadNodes: number;
}

export type Quota = ReturnType<typeof createQuota>;

/** How often a reconcile lists the nodes anew because one came or went, before it gives up until the next round. */
const RECONCILE_ATTEMPTS = 5;
const MILLION = 1_000_000;

export function createQuota(store: Store, cluster: ClusterPolicy) {
  let clusterArgs = clusterArguments(cluster);
  const keys = {
    cluster: clusterKey(cluster.id),
    nodes: nodesKey(cluster.id),
    app: (app: string) => appKey(cluster.id, app),
    ledger: (node: string) => ledgerKey(cluster.id, node),
    operation: (id: string) => operationKey(cluster.id, id),
  };

  async function run(script: ScriptName, scriptKeys: string[], args: RedisValue[], options?: RunOptions) {
    const reply = await store.run(script, scriptKeys, [...clusterArgs, ...args], options);
    if (reply[0] === INVALID_ARGUMENT) throw new RefusedArgument(script, text(reply, 1));
    return reply;
  }

  const nameOf = (sender: { node: string; epoch: number }) => nodeInEpoch(sender.node, String(sender.epoch));

  function nodeKeys(sender: Sender, requests: ReportRequest[]): string[] {
    const apps = requests.map((request) => keys.app(request.app.id));
    return [keys.cluster, keys.nodes, keys.ledger(nameOf(sender)), ...apps];
  }

  async function nodes() {
    const reply = await run("nodes", [keys.cluster, keys.nodes], []);
    return chunks(reply, 1, 3).map((chunk) => ({
      node: text(chunk, 0),
      silentMs: number(chunk, 1),
      alive: chunk[2] === 1,
    }));
  }

  return {
    /** Other limits for the same cluster, from the next call on. */
    reconfigure(limits: Omit<ClusterPolicy, "id">): void {
      clusterArgs = clusterArguments({ ...limits, id: cluster.id });
    },

    /** Books the counters of a node and grants it tokens. Grants are empty when the code is not "ok". */
    async grant(sender: Sender, requests: GrantRequest[], options?: RunOptions) {
      const args = requests.flatMap((request) => [
        ...appArguments(request.app),
        ...[request.granted, request.spent, request.returned, request.need, request.want],
        request.lastWord ? LAST_WORD : request.app.borrow ? 1 : 0,
      ]);
      const reply = await run("grant", nodeKeys(sender, requests), [sender.seq, nameOf(sender), ...args], options);
      const apps: AppGrant[] = chunks(reply, 4, 5).map((chunk, i) => ({
        app: requests[i]?.app.id ?? "",
        code: text(chunk, 0),
        granted: number(chunk, 1),
        remaining: number(chunk, 2),
        limit: number(chunk, 3),
        retryAfterMs: number(chunk, 4),
      }));
      return { ...nodeAnswer(reply), apps };
    },

    /** Books the counters of a node without granting. With `leave` the node's epoch ends and all it held goes back. */
    async report(sender: Sender, requests: ReportRequest[], leave: boolean, options?: RunOptions) {
      const args = requests.flatMap((request) => [
        ...appArguments(request.app),
        ...[request.granted, request.spent, request.returned],
      ]);
      const own = [sender.seq, nameOf(sender), leave ? 1 : 0];
      const reply = await run("report", nodeKeys(sender, requests), [...own, ...args], options);
      const apps = chunks(reply, 4, 2).map((chunk, i) => ({
        app: requests[i]?.app.id ?? "",
        granted: number(chunk, 0),
        remaining: number(chunk, 1),
      }));
      return { ...nodeAnswer(reply), apps };
    },

    async heartbeat(sender: { node: string; epoch: number }): Promise<NodeAnswer> {
      const name = nameOf(sender);
      return nodeAnswer(await run("heartbeat", [keys.cluster, keys.nodes, keys.ledger(name)], [name]));
    },

    nodes,

    /** What the store knows of a node; `node` as `nodes` names it. */
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

    /** The balances of an app, in tokens, fractions included. */
    async inspect(app: BucketLimits) {
      const reply = await run("inspect", [keys.cluster, keys.app(app.id)], appArguments(app));
      return {
        tokens: number(reply, 1) / MILLION,
        debt: number(reply, 2) / MILLION,
        clusterTokens: number(reply, 3) / MILLION,
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
      return {
        code: text(reply, 0),
        borrowed: number(reply, 1),
        debt: number(reply, 2),
        remaining: number(reply, 3),
        borrowable: number(reply, 4),
      };
    },

    async repay(app: BucketLimits, amount: number, operation: string) {
      const args = [...appArguments(app), amount];
      const reply = await run("repay", [keys.cluster, keys.app(app.id), keys.operation(operation)], args);
      return {
        code: text(reply, 0),
        repaid: number(reply, 1),
        debt: number(reply, 2),
        remaining: number(reply, 3),
      };
    },

    /** `durationMs` 0: until it is turned off. */
    async emergencyOn(durationMs: number, reason: string, operator: string, operation: string) {
      const reply = await run(
        "emergency-on",
        [keys.cluster, keys.operation(operation)],
        [durationMs, reason, operator],
      );
      return { changed: reply[1] === 1, sinceMs: number(reply, 2), untilMs: number(reply, 3) };
    },

    async emergencyOff(operation: string) {
      const reply = await run("emergency-off", [keys.cluster, keys.operation(operation)], []);
      return { changed: reply[1] === 1 };
    },

    async emergencyCheck(cooldownMs: number, automatic: boolean) {
      const reply = await run("emergency-check", [keys.cluster], [cooldownMs, automatic ? 1 : 0]);
      return {
        active: reply[1] === 1,
        changed: reply[2] === 1,
        source: text(reply, 3),
        sinceMs: number(reply, 4),
        leftMs: number(reply, 5),
        usage: number(reply, 6) / MILLION,
      };
    },

    /** Brings one app in line with its nodes. Undefined when nodes came and went faster than they could be listed. */
    async reconcile(
      app: BucketLimits,
      how: { tolerance: number; force: boolean; operation: string },
    ): Promise<ReconcileResult | undefined> {
      for (let attempt = 0; attempt < RECONCILE_ATTEMPTS; attempt++) {
        const names = (await nodes()).map((entry) => entry.node);
        const scriptKeys = [
          ...[keys.cluster, keys.app(app.id), keys.nodes, keys.operation(how.operation)],
          ...names.map(keys.ledger),
        ];
        const own = [Math.round(how.tolerance * MILLION), how.force ? 1 : 0];
        const reply = await run("reconcile", scriptKeys, [...appArguments(app), ...own, ...names]);
        if (reply.length > 1) return reconcileResult(reply);
      }
      return undefined;
    },
  };
}

function nodeAnswer(reply: ScriptReply): NodeAnswer {
  return {
    code: text(reply, 0),
    liveNodes: number(reply, 1),
    emergency: reply[2] === 1,
    emergencyLeftMs: number(reply, 3),
  };
}

function reconcileResult(reply: ScriptReply): ReconcileResult {
  return {
    correctionsMade: number(reply, 1),
    driftBefore: number(reply, 2) / MILLION,
    driftAfter: number(reply, 3) / MILLION,
    expectedTokens: number(reply, 4),
    actualTokens: number(reply, 5),
    correction: number(reply, 6),
    recoveredTokens: number(reply, 7),
    deadNodes: number(reply, 8),
  };
}

function number(reply: ScriptReply, index: number): number {
  return Number(reply[index] ?? 0);
}

function text(reply: ScriptReply, index: number): string {
  return String(reply[index] ?? "");
}

/** The reply from `from` on, in pieces of `width`. */
function chunks(reply: ScriptReply, from: number, width: number): ScriptReply[] {
  const pieces: ScriptReply[] = [];
  for (let i = from; i + width <= reply.length; i += width) pieces.push(reply.slice(i, i + width));
  return pieces;
}
