/** Node as the host of the engine: decisions are immediate, or promises. */
import type { Outcome } from "../engine/account.js";
import type { SyncHost } from "../engine/host.js";
import { isEmergencyNews, wantSync } from "../engine/sync-loop.js";
import { addWaiter, newWaiter } from "../engine/waiters.js";
import type { LimitMatch } from "../limit-rules/limit-rules.js";
import type { Accounts, LimiterAccount, LimiterNode, LimiterWaiter } from "./accounts.js";
import type { LimiterObserver, LimiterOptions } from "./limiter-contract.js";

export interface LimiterHost extends SyncHost<LimiterAccount, Promise<boolean>> {
  /** The promise is of false, or of true if an account was removed meanwhile: then the request is decided again. */
  awaitTokens(this: void, outcomes: Outcome<LimiterAccount>[], sinceMs?: number): Promise<boolean>;
}

/** What the host uses of the syncer of a shard. */
interface ShardSyncer {
  sync(): void;
  syncAfterGap(): void;
  level(): number;
}

export interface LimiterHostOptions extends Required<Pick<LimiterOptions, "clock" | "defer">> {
  observer: LimiterObserver;
  accounts: Accounts;
  syncerOf(node: LimiterNode): ShardSyncer;
  valueAccount(match: LimitMatch): LimiterAccount;
}

export function createLimiterHost(options: LimiterHostOptions): LimiterHost {
  const { clock, defer, observer, accounts, syncerOf, valueAccount } = options;

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
        host.wantTokens(account);
      }
    });
  }

  const host: LimiterHost = {
    nowMs: () => clock.now(),
    unixMs: Date.now,
    random: Math.random,

    valueAccount,
    // One that was released while the request waited for another account may have been forgotten.
    currentAccount: (account) => accounts.find(account.limits.id) ?? accounts.owner(account.limits.id) ?? account,
    // Nobody else changes an account, but calls that took long no longer count after a while.
    refresh({ node }) {
      node.clock = clock.now();
      syncerOf(node).level();
    },
    refunded: () => {},

    awaitTokens,
    wantTokens: (account) => wantSync(host, account),
    wake: (waiter) => waiter.wake(),

    soon(work) {
      defer(work);
      return true;
    },
    sync: (node) => syncerOf(node).sync(),
    syncAfterGap: (node) => syncerOf(node).syncAfterGap(),
    pollsForRecalls: false,

    accountsOf: accounts.all,
    save: () => {},
    forgetDeparted({ departed }) {
      for (const account of departed) accounts.forget(account);
    },
    emergencyChanged(node) {
      if (isEmergencyNews(node)) observer.emergencyChanged?.(node.emergency);
    },
  };
  return host;
}
