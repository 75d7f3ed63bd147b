/** Takes the tokens of a request from several accounts, or from none; requests may wait for the store. */
import { OK } from "../../core/codes.js";
import type { Outcome } from "../../engine/account.js";
import { DECIDED_SYNC, decideMiss, isLow, refuseWithoutStore, WAIT } from "../../engine/decide.js";
import { activate } from "../../engine/node.js";
import { refund } from "../../engine/settle.js";
import { ALL_TAKEN, allAllowed, refuseTogether, takeTogether } from "../../engine/together.js";
import { addWaiter, newWaiter } from "../../engine/waiters.js";
import type { Clock } from "../../shared/clock.js";
import type { LimiterAccount, LimiterWaiter } from "../accounts.js";
import type { Syncer } from "../syncer.js";

/** The outcome of one of the accounts. */
export type JointOutcome = Outcome & { account: LimiterAccount };

/** An app was removed while the request waited: it is decided again. */
export const AGAIN = "again";

export interface JointPaymentsOptions {
  clock: Clock;
  syncerOf(account: LimiterAccount): Syncer;
}

export function createJointPayments({ clock, syncerOf }: JointPaymentsOptions) {
  function spent(account: LimiterAccount, balance: number): void {
    const syncer = syncerOf(account);
    if (!account.active) activate(syncer.node, account);
    if (isLow(syncer.node, account, balance)) syncer.wake(account);
  }

  /** Undefined if the outcome is decided. */
  function takeOrWait(outcome: JointOutcome): Promise<string> | undefined {
    const { account } = outcome;
    // A dry run of a denied value, or of a cost that the limit can never pay.
    if (outcome.code !== OK) return undefined;
    if (takeTogether([outcome]) === ALL_TAKEN) {
      spent(account, outcome.balance);
      return undefined;
    }
    const now = clock.now();
    const syncer = syncerOf(account);
    if (syncer.isClosed()) {
      refuseWithoutStore(outcome);
      return undefined;
    }
    syncer.level();
    const step = decideMiss(syncer.node, outcome, now);
    if (step === DECIDED_SYNC) syncer.wake(account);
    if (step !== WAIT) return undefined;
    return new Promise((resolve) => {
      const waiter: LimiterWaiter = {
        ...newWaiter(outcome, now + syncer.node.options.timeoutMs),
        wake: () => resolve(OK),
        decideAgain: () => resolve(AGAIN),
      };
      addWaiter(account, waiter);
      syncer.wake(account);
    });
  }

  /** A refused request uses nothing. */
  function giveBackUnlessAllowed(outcomes: readonly JointOutcome[], again: boolean): void {
    if (!again && allAllowed(outcomes)) return;
    for (const { account, code, cost } of outcomes) {
      if (code !== OK || cost <= 0) continue;
      refund(account, cost);
      syncerOf(account).spent(account);
    }
  }

  return {
    /** Tokens were taken from a lease: it is refilled in time. */
    spent,

    /** Takes all from the leases. False if that is not possible, and then nothing was taken. */
    takeLocally(outcomes: readonly JointOutcome[]): boolean {
      if (outcomes.some(({ denied }) => denied) || takeTogether(outcomes) !== ALL_TAKEN) return false;
      for (const { account, balance } of outcomes) spent(account, balance);
      return true;
    },

    /**
     * Decides all outcomes if the leases could not pay. A promise if a request has to wait: of AGAIN if an app was removed
     * meanwhile, whose outcome is not decided. What was taken for a request that is not admitted is given back.
     */
    takeOrRefuse(outcomes: readonly JointOutcome[]): Promise<string> | undefined {
      if (refuseTogether(outcomes, clock.now())) return undefined;
      const waiting = outcomes.flatMap((outcome) => takeOrWait(outcome) ?? []);
      if (waiting.length === 0) {
        giveBackUnlessAllowed(outcomes, false);
        return undefined;
      }
      return Promise.all(waiting).then((results) => {
        const again = results.includes(AGAIN);
        giveBackUnlessAllowed(outcomes, again);
        return again ? AGAIN : OK;
      });
    },
  };
}
