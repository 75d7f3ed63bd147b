/**
 * The host interface of the engine: what a plane provides, so that the same code decides, waits, syncs and settles in it. It is
 * implemented by the limiter for Node (`limiter/limiter.ts`, `limiter/syncer.ts`), by nginx (`planes/nginx/host.ts`), and by Envoy's
 * module for its workers and its main thread (`planes/envoy/worker/host.ts`, `planes/envoy/main-thread/host.ts`).
 *
 * Besides these functions, a host creates the accounts with their cells (`Account.cell`, `syncCell` and `refunds`, see `core/lease.ts`),
 * reads requests as `RequestAttributes` (`limit-rules/limit-rules.ts`) and sets response headers as `AddHeader` (`core/response-headers.ts`).
 */
import type { LimitMatch } from "../limit-rules/limit-rules.js";
import type { Account, Outcome } from "./account.js";

/** What a host needs to decide and settle. `Waited`: a promise, or nothing if the host can suspend the request. */
export interface Host<A extends Account = Account, Waited = unknown> {
  // Clock.
  /** Milliseconds. A host may return the time at which the current turn of its event loop began. */
  nowMs(this: void): number;

  // Accounts and cells.
  /** The account of a value of the current request; if there is no room for it, the one that it shares with others. */
  valueAccount(this: void, match: LimitMatch): A;
  /** The account that pays for an exchange of this account: another one if its value was released meanwhile. */
  currentAccount(this: void, account: A): A;
  /** Before a lease that cannot pay leads to a refusal or to waiting: reads what others who share the account know of it. */
  refresh(this: void, account: A): void;
  /** Tokens were given back: a cached refusal has ended, also for others who share the account. */
  refunded(this: void, account: A): void;

  // Waiting.
  /** These outcomes of the current request have to wait for a sync: returns when all are decided. */
  awaitTokens(this: void, outcomes: Outcome<A>[]): Waited;
  /** The lease of the account is low: a message should be sent soon. */
  wantTokens(this: void, account: A): void;
}
