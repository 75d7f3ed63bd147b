/**
 * What L1 pays for an app. Its last second of refill is reserved: bursts, borrowing and overdraft take only what is above it, and
 * the reserve pays each app's own rate. The own rate is a small bucket per app, so no app can take the part of another one.
 */
import { MICRO, wholeTokens } from "./bucket.js";

/** The reserve is what L1 refills in this time … */
const RESERVE_SECONDS = 1;
/** … but at most this fraction of its capacity, so that bursts remain possible with a small one. */
const MOST_RESERVED = 0.5;

/** What `payable` reads of L1. Micro-tokens. */
export interface Payer {
  tokens: number;
  reserve: number;
  /** Only the own rate is paid: the first stage of an automatic emergency. */
  burstsStopped: boolean;
}

/** An app's own rate: the part of L1's reserve that nobody else can take. Micro-tokens. */
export interface OwnRate {
  /** Negative after a need above one second of the rate was paid while bursts are stopped. */
  own: number;
  ownCapacity: number;
}

/** L1's reserve in micro-tokens. */
export function reserveOf(capacity: number, rate: number): number {
  return Math.floor(Math.min(rate * RESERVE_SECONDS, capacity * MOST_RESERVED));
}

/**
 * The capacity of an app's own rate: as many seconds of it as the reserve has of the cluster's rate. So those of all apps fit
 * into the reserve if their rates sum to at most the cluster's. At least one token: a slow app must be able to save it.
 */
export function ownCapacityOf(rate: number, clusterRate: number, reserve: number): number {
  if (rate <= 0) return 0;
  const seconds = clusterRate > 0 ? Math.min(reserve / clusterRate, RESERVE_SECONDS) : 0;
  const capacity = Math.floor(rate * seconds);
  return Math.max(capacity, MICRO);
}

/** Micro-tokens above the reserve. */
export function aboveReserve({ tokens, reserve }: Payer): number {
  return Math.max(tokens - reserve, 0);
}

/** Whole tokens above the reserve, and of the reserve those of the own rate. */
function withBursts({ own }: OwnRate, cluster: Payer): number {
  const { tokens, reserve } = cluster;
  const reserved = Math.min(tokens, reserve);
  const ofOwn = Math.min(own, reserved);
  return wholeTokens(Math.max(tokens - reserve, 0) + Math.max(ofOwn, 0));
}

/** Whole tokens that L1 pays for the app at most. */
export function payable(app: OwnRate, cluster: Payer): number {
  return cluster.burstsStopped ? wholeTokens(Math.min(app.own, cluster.tokens)) : withBursts(app, cluster);
}

/**
 * Whether L1 pays `need` tokens in full although fewer are payable: while bursts are stopped, an app whose own rate is full may take
 * more than one second of it in advance, as far as L1 has that above its reserve. `fullOwn`: the highest level of the own rate.
 */
export function isPayableInAdvance(need: number, app: OwnRate, cluster: Payer, fullOwn: number): boolean {
  return cluster.burstsStopped && app.own >= fullOwn && need <= withBursts(app, cluster);
}

/** How many micro-tokens of a payment the own rate covers. The rest is above the reserve. */
export function paidByOwn(amount: number, cluster: Payer): number {
  if (cluster.burstsStopped) return amount;
  const above = aboveReserve(cluster);
  return amount - Math.min(amount, above);
}
