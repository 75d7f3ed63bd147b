/** Charges a transfer of unknown length while it runs: tokens are taken before the bytes that they pay for pass. */
import { COST_EXCEEDS_CAPACITY } from "../core/codes.js";
import { type CostProfile, countsRequests, countsResponses, price } from "../core/cost.js";
import type { UnknownLength } from "../core/limits.js";
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

/** With "delay", refused tokens are requested again after their Retry-After, within these bounds. */
const SHORTEST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;
/** Share of the burst that is taken at once at most, so that a bucket that others use as well is sufficient. */
const LARGEST_SHARE = 0.25;

/** Whether the exchange is charged while it runs. */
export function isMetered(account: LimiterAccount, decision: Decision): boolean {
  const { unknownLength = "charge", dryRun } = account.limits;
  return unknownLength !== "charge" && !dryRun && profileOf(account, decision).bandwidth > 0;
}

function profileOf({ limits }: LimiterAccount, { profile }: Decision): CostProfile {
  return profile ?? limits.profile;
}

/**
 * One per exchange or connection, for all its directions of unknown length. Tokens are taken for each complete quantum; the
 * last one, which is incomplete, is charged by the settlement. A small body is therefore never delayed or aborted.
 */
export class Meter {
  /** Tokens taken, in addition to the cost of the decision. */
  taken = 0;
  /** Bytes are held back until `paid` or `refused` is called. */
  waiting = false;
  private bytes: number;
  private closed = false;
  private delayed = false;
  private progressMs = 0;
  private cancelRetry: (() => void) | undefined;

  constructor(
    private readonly limiter: MeterLimiter,
    private readonly decision: Decision,
    private readonly transfer: Transfer,
  ) {
    const account = limiter.account(decision.app);
    const isCounted = account !== undefined && countsRequests(profileOf(account, decision));
    this.bytes = isCounted ? transfer.knownBytes : 0;
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
    this.bytes += bytes;
    if (this.closed || this.waiting) return this.closed;
    const account = this.unpaidAccount();
    if (account === undefined) return true;
    this.progressMs = this.limiter.clock.now();
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
    return account !== undefined && isMetered(account, this.decision) && this.due(account) > 0 ? account : undefined;
  }

  private due(account: LimiterAccount): number {
    const profile = profileOf(account, this.decision);
    const whole = Math.floor(this.bytes / profile.quantum) * profile.quantum;
    return price(profile, this.decision.method, whole) - this.decision.cost - this.taken;
  }

  private pay(first: LimiterAccount): boolean {
    let account: LimiterAccount | undefined = first;
    while (account !== undefined) {
      const largest = Math.max(Math.floor(account.sync.limit * LARGEST_SHARE), 1);
      const made = this.limiter.take(this.decision.app, Math.min(this.due(account), largest));
      if (made instanceof Promise || !made.allowed) {
        this.waiting = true;
        void Promise.resolve(made).then((decision) => this.decided(decision));
        return false;
      }
      this.taken += made.cost;
      this.progressMs = this.limiter.clock.now();
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
      this.taken += decision.cost;
      this.progressMs = this.limiter.clock.now();
      this.again();
      return;
    }
    const left = this.progressMs + this.transfer.patienceMs - this.limiter.clock.now();
    if (this.policy() === "cut" || left <= 0) {
      this.limiter.observer.transferLimited?.(this.decision, "aborted");
      this.transfer.refused(decision);
      return;
    }
    if (!this.delayed) this.limiter.observer.transferLimited?.(this.decision, "delayed");
    this.delayed = true;
    // A retry takes less if the capacity was reduced meanwhile.
    const retryMs = decision.code === COST_EXCEEDS_CAPACITY ? 0 : decision.retryAfterMs;
    const pauseMs = Math.min(Math.max(retryMs, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS, left);
    this.cancelRetry = this.limiter.clock.after(pauseMs, () => this.again());
  }

  private policy(): UnknownLength | undefined {
    return this.limiter.account(this.decision.app)?.limits.unknownLength;
  }

  private again(): void {
    const account = this.unpaidAccount();
    if (account !== undefined && !this.pay(account)) return;
    this.waiting = false;
    this.transfer.paid();
  }
}
