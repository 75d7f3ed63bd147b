/**
 * The host interface of the engine: what a plane provides, so that the same code decides, waits, syncs and settles in it. It is
 * implemented for Node in `limiter/limiter-host.ts`, with a `limiter/syncer.ts` per shard, and for Lua in `planes/lua`: nginx adds
 * `planes/nginx/host.ts`, Envoy's module `planes/envoy/worker/host.ts` and `planes/envoy/main-thread/host.ts`.
 *
 * Besides these functions, a host creates the accounts with their cells (`Account.cell`, `syncCell` and `refunds`, see `core/lease.ts`),
 * reads requests as `RequestAttributes` (`limit-rules/limit-rules.ts`) and sets response headers as `AddHeader` (`core/response-headers.ts`).
 */
import type { LimitMatch } from "../limit-rules/limit-rules.js";
import type { Account, NodeState, Outcome } from "./account.js";

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

/**
 * What a host needs besides to send messages. It calls `planDue`, sends what is planned, and calls `endSync` or `syncFailed` of
 * `engine/sync-loop.ts` when the call has ended.
 */
export interface SyncHost<A extends Account = Account, Waited = unknown> extends Host<A, Waited> {
  // Clock and random numbers.
  /** Milliseconds since 1970. Numbers of epochs grow with it. */
  unixMs(this: void): number;
  /** From 0 to below 1. */
  random(this: void): number;

  // Timers. The host also calls `sync` for each node once per sync interval.
  /** Does this after this turn of the event loop, so that all misses in it share one message. False if that is not possible. */
  soon(this: void, work: (this: void) => void): boolean;
  /** Waiters of the node need a message when the gap after a short reply is over. */
  syncAfterGap(this: void, node: NodeState<A>): void;

  // Transport.
  /** Sends what is due to a shard, unless a message to it is under way. */
  sync(this: void, node: NodeState<A>): void;
  /** The host learns of recalls from replies only, so it polls while it holds tokens. */
  pollsForRecalls: boolean;

  // Accounts.
  /** All accounts of the node on a shard. */
  accountsOf(this: void, node: NodeState<A>): readonly A[];
  /** These have changed with a reply: a host that shares them with other workers saves them. */
  save(this: void, accounts: readonly A[]): void;
  /** Everything about `node.departed` was reported. */
  forgetDeparted(this: void, node: NodeState<A>): void;
  /** A reply of this shard began or ended an emergency: see `isEmergencyNews`. */
  emergencyChanged(this: void, node: NodeState<A>): void;

  // Waiting.
  /** A waiter is decided. */
  wake(this: void, waiter: A["waiters"][number]): void;
}
