/** Drives the engine by events, without I/O: one node, its accounts, and the messages that it sends. */

import type { AppLimits } from "../../../src/core/app-limits.js";
import { standardProfile } from "../../../src/core/cost.js";
import { defaultLeaseOptions } from "../../../src/core/lease.js";
import { type Account, newAccount, newOutcome, type Outcome } from "../../../src/engine/account.js";
import { DECIDED, decide, decideMiss, MISSED, WAIT } from "../../../src/engine/decide.js";
import { newEpoch } from "../../../src/engine/epoch.js";
import { type NodeOptions, newNode, takeDecided, updateLevel } from "../../../src/engine/node.js";
import { type PlannedSync, planMessage, type SyncReply, startMessage } from "../../../src/engine/plan.js";
import { applyReplies, failSync, serveReplies } from "../../../src/engine/reply.js";
import { addWaiter, newWaiter } from "../../../src/engine/waiters.js";

export function limits(given: Partial<AppLimits> & { id: string }): AppLimits {
  return {
    guaranteed: 100,
    burst: 200,
    priority: 2,
    borrow: false,
    profile: standardProfile,
    onStoreFailure: "closed",
    dryRun: false,
    ...given,
  };
}

export function createNodeDriver(apps: AppLimits[], options: Partial<NodeOptions> = {}) {
  const lease = { ...defaultLeaseOptions, reserve: 20 };
  const defaults = { lease, timeoutMs: 1000, failOpenTokens: 10 };
  const node = newNode<Account>({ ...defaults, ...options }, 1000);
  let now = 1_000_000;
  const accounts = apps.map((app) => newAccount(app, node, now));
  const account = (id: string) => accounts.find((one) => one.limits.id === id)!;

  /** Receives the reply that `answer` makes up for each planned account; accounts without one get no reply. */
  function receive(planned: PlannedSync[], answer: (one: PlannedSync) => Partial<SyncReply> | undefined, head = {}) {
    for (const one of planned) {
      const reply = answer(one);
      if (reply === undefined) continue;
      const { granted } = one.message;
      const limit = one.account.limits.burst;
      one.reply = { code: "ok", granted, remaining: 0, limit, retryAfterMs: 0, scarce: false, ...reply };
    }
    const reply = { code: "ok", liveNodes: 1, emergency: false, known: true, ...head };
    const nextEpoch = newEpoch(node.epoch, now, 0);
    applyReplies(node, { accounts: () => accounts, planned, answer: reply, started: now - 5, now, nextEpoch });
    serveReplies(node, planned);
    return takeDecided(node);
  }

  function send() {
    updateLevel(node, now);
    const planned = planMessage(node, now);
    startMessage(node, planned);
    return planned;
  }

  return {
    node,
    accounts,
    account,
    send,
    receive,
    now: () => now,
    advance(ms: number) {
      now += ms;
    },
    /** A GET without a body; it costs one token. With `bytes`, one more per started 64 KiB. */
    request(id: string, bytes = 0): Outcome {
      const outcome = newOutcome(account(id), "GET", 0);
      let step = decide(node, outcome, bytes);
      if (step === MISSED) step = decideMiss(node, outcome, now);
      if (step === WAIT) addWaiter(account(id), newWaiter(outcome, now + node.options.timeoutMs));
      else if (step !== DECIDED) updateLevel(node, now);
      return outcome;
    },
    /** One message, to which the store grants everything. */
    fill() {
      const planned = send();
      receive(planned, ({ message }) => ({ granted: message.granted + message.want, remaining: 100 }));
      return planned;
    },
    fail(timedOut = true) {
      failSync(node, { timedOut, started: now - 5, now, random: 1 });
      return takeDecided(node);
    },
  };
}
