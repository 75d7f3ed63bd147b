/** The Node host of `engine/metering.ts`: takes tokens of the limiter, with a promise for those that it has to wait for. */
import { type CostProfile, countsRequests, countsResponses } from "../core/cost.js";
import { dueTokens, isMetered, type Metering, newMetering, nextTake, pauseMs, REFUSED } from "../engine/metering.js";
import type { Clock } from "../shared/clock.js";
import type { LimiterAccount } from "./accounts.js";
import type { Decision, LimiterObserver } from "./limiter-contract.js";

/** What is transferred. There may be many thousands, so that a meter keeps nothing but this. */
export interface Transfer {
  /** Request bytes that are known before the transfer: the declared length of a request whose response is metered. */
  readonly knownBytes: number;
  /** With "delay", the transfer is refused after this time without a token. */
  readonly patienceMs: number;
  /** After `add` returned false, one of these is called, unless the meter was closed. All bytes added so far may pass. */
  paid(): void;
  /** Nothing more may pass. */
  refused(decision: Decision): void;
}

/** What a meter uses of its limiter. */
export interface MeterLimiter {
  clock: Clock;
  /** Undefined if the app is no longer configured: the transfer is charged at its end. */
  account(app: string): LimiterAccount | undefined;
  take(app: string, tokens: number): Decision | Promise<Decision>;
  giveBack(app: string, tokens: number): void;
  observer: Pick<LimiterObserver, "transferLimited">;
}

/** Whether the exchange is charged while it runs. */
export function isMeteredExchange(account: LimiterAccount, decision: Decision): boolean {
  return isMetered(account.limits, profileOf(account, decision));
}

function profileOf({ limits }: LimiterAccount, { profile }: Decision): CostProfile {
  return profile ?? limits.profile;
}

/** One per exchange or connection, for all its directions of unknown length. */
export class Meter {
  /** Bytes are held back until `paid` or `refused` is called. */
  waiting = false;
  private closed = false;
  private readonly metering: Metering;
  private cancelRetry: (() => void) | undefined;

  constructor(
    private readonly limiter: MeterLimiter,
    private readonly decision: Decision,
    private readonly transfer: Transfer,
  ) {
    const account = limiter.account(decision.app);
    const isCounted = account !== undefined && countsRequests(profileOf(account, decision));
    this.metering = newMetering(isCounted ? transfer.knownBytes : 0);
  }

  /** Tokens taken, in addition to the cost of the decision. */
  get taken(): number {
    return this.metering.taken;
  }

  /**
   * Whether these bytes, and all of this direction that were held back, may pass now. Otherwise the transfer is called later,
   * never during this call.
   */
  add(bytes: number, direction: "request" | "response"): boolean {
    const payer = this.limiter.account(this.decision.app);
    if (payer !== undefined) {
      const counts = direction === "request" ? countsRequests : countsResponses;
      if (!counts(profileOf(payer, this.decision))) return true;
    }
    this.metering.bytes += bytes;
    if (this.closed || this.waiting) return this.closed;
    const account = this.unpaidAccount();
    if (account === undefined) return true;
    this.metering.progressMs = this.limiter.clock.now();
    return this.pay(account);
  }

  /** The transfer has ended: it is not called any more. Tokens that are granted later are given back. */
  close(): void {
    this.closed = true;
    this.waiting = false;
    this.cancelRetry?.();
  }

  /** The account, if it has to pay for more quanta. */
  private unpaidAccount(): LimiterAccount | undefined {
    const account = this.limiter.account(this.decision.app);
    return account !== undefined && isMeteredExchange(account, this.decision) && this.due(account) > 0
      ? account
      : undefined;
  }

  private due(account: LimiterAccount): number {
    const { method, cost } = this.decision;
    return dueTokens(this.metering, { method, cost, profile: profileOf(account, this.decision) });
  }

  private pay(first: LimiterAccount): boolean {
    let account: LimiterAccount | undefined = first;
    while (account !== undefined) {
      const made = this.limiter.take(this.decision.app, nextTake(this.due(account), account.sync.limit));
      if (made instanceof Promise || !made.allowed) {
        this.waiting = true;
        void Promise.resolve(made).then((decision) => this.decided(decision));
        return false;
      }
      this.metering.taken += made.cost;
      this.metering.progressMs = this.limiter.clock.now();
      account = this.unpaidAccount();
    }
    return true;
  }

  private decided(decision: Decision): void {
    if (this.closed) {
      if (decision.allowed) this.limiter.giveBack(decision.app, decision.cost);
      return;
    }
    if (decision.allowed) {
      this.metering.taken += decision.cost;
      this.metering.progressMs = this.limiter.clock.now();
      this.again();
      return;
    }
    const { metering } = this;
    const wasDelayed = metering.delayed;
    const policy = this.limiter.account(this.decision.app)?.limits.unknownLength;
    const patience = { now: this.limiter.clock.now(), patienceMs: this.transfer.patienceMs };
    const retryMs = pauseMs(metering, policy, decision, patience);
    if (retryMs === REFUSED) {
      this.limiter.observer.transferLimited?.(this.decision, "aborted");
      this.transfer.refused(decision);
      return;
    }
    if (!wasDelayed) this.limiter.observer.transferLimited?.(this.decision, "delayed");
    this.cancelRetry = this.limiter.clock.after(retryMs, () => this.again());
  }

  private again(): void {
    const account = this.unpaidAccount();
    if (account !== undefined && !this.pay(account)) return;
    this.waiting = false;
    this.transfer.paid();
  }
}
