/** What other nodes have done to a bucket: its state in the store, and refunds of tokens that another node has taken. */
import { randomUUID } from "node:crypto";
import { OK, QUOTA_EXHAUSTED } from "../core/codes.js";
import { spentTokens } from "../core/lease.js";
import { newOutcome } from "../engine/account.js";
import { conclude, decideLook } from "../engine/decide.js";
import { recordBucket } from "../engine/remaining.js";
import type { Clock } from "../shared/clock.js";
import type { LimiterAccount } from "./accounts.js";
import { decisionFrom } from "./decisions.js";
import type { Decision } from "./limiter-contract.js";
import type { Syncer } from "./syncer.js";

export interface SharedStateOptions {
  clock: Clock;
  syncerOf(account: LimiterAccount): Syncer;
  /** Returns tokens that this node has spent. */
  giveBack(account: LimiterAccount, tokens: number): void;
}

export function createSharedState({ clock, syncerOf, giveBack }: SharedStateOptions) {
  /**
   * Takes nothing. The decision is that about a request of one token, by the state in the store. `remaining` does not include
   * the tokens that other nodes hold. Without the store, by what this node knows.
   */
  async function look(account: LimiterAccount): Promise<Decision> {
    const outcome = newOutcome(account, "", 0);
    const found = await syncerOf(account).inspect(account.limits);
    if (found === undefined) {
      decideLook(outcome, clock.now());
      return decisionFrom(outcome, clock.now());
    }
    const { tokens, granted, spent, returned } = found;
    const balance = account.cell.get();
    recordBucket(account, tokens, Math.max(granted - spent - returned, 0), clock.now());
    // Other nodes return idle tokens when a request needs them. The store may not know yet what this node has spent.
    if (tokens + account.sync.elsewhere + balance >= 1) conclude(outcome, "remote", OK, balance);
    else {
      outcome.retryAfterMs = Math.ceil(((1 - tokens) / account.limits.guaranteed) * 1000);
      conclude(outcome, "remote", QUOTA_EXHAUSTED, balance);
    }
    return decisionFrom(outcome, clock.now());
  }

  /**
   * Returns tokens that this or another node has taken: what this node has not spent goes to the bucket in the store, as far
   * as it fits. False if the store does not reply: then nothing was returned.
   */
  async function refund(account: LimiterAccount, tokens: number): Promise<boolean> {
    if (!(tokens > 0)) return true;
    const { lease, cell, limits } = account;
    const own = Math.min(Math.max(spentTokens(lease, cell), 0), tokens);
    const others = Math.min(tokens - own, limits.burst);
    if (others >= 1 && !(await syncerOf(account).credit(limits, others, randomUUID()))) return false;
    giveBack(account, own);
    return true;
  }

  return { look, refund };
}
