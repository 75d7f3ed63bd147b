/** Node as the host of the engine: decisions are immediate, or promises. */
import type { Outcome } from "../engine/account.js";
import type { Host } from "../engine/host.js";
import { addWaiter, newWaiter } from "../engine/waiters.js";
import type { LimitMatch } from "../limit-rules/limit-rules.js";
import type { Clock } from "../shared/clock.js";
import type { LimiterAccount, LimiterWaiter } from "./accounts.js";
import type { Syncer } from "./syncer.js";

export interface LimiterHost extends Host<LimiterAccount, Promise<boolean>> {
  /** The promise is of false, or of true if an account was removed meanwhile: then the request is decided again. */
  awaitTokens(this: void, outcomes: Outcome<LimiterAccount>[], sinceMs?: number): Promise<boolean>;
}

export interface LimiterHostOptions {
  clock: Clock;
  syncerOf(account: LimiterAccount): Syncer;
  valueAccount(match: LimitMatch): LimiterAccount;
}

export function createLimiterHost({ clock, syncerOf, valueAccount }: LimiterHostOptions): LimiterHost {
  /** `sinceMs`: when the request arrived. */
  function awaitTokens(outcomes: Outcome<LimiterAccount>[], sinceMs = clock.now()): Promise<boolean> {
    let pending = outcomes.length;
    let isRemoved = false;
    return new Promise((resolve) => {
      const ended = (removed: boolean) => {
        isRemoved ||= removed;
        pending--;
        if (pending === 0) resolve(isRemoved);
      };
      for (const outcome of outcomes) {
        const { account } = outcome;
        const waiter: LimiterWaiter = {
          ...newWaiter(outcome, sinceMs + account.node.options.timeoutMs),
          wake: () => ended(false),
          decideAgain: () => ended(true),
        };
        addWaiter(account, waiter);
        syncerOf(account).wake(account);
      }
    });
  }

  return {
    nowMs: () => clock.now(),
    valueAccount,
    // An account is kept until everything about it is reported, and comes back with its next use.
    currentAccount: (account) => account,
    /** Nobody else changes an account. Calls that took long no longer count after a while. */
    refresh: (account) => syncerOf(account).level(),
    refunded: () => {},
    awaitTokens,
    wantTokens: (account) => syncerOf(account).wake(account),
  };
}
