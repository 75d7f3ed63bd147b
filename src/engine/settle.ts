/** Corrects the estimated cost of a finished exchange, learns from its sizes, and takes back tokens that were not needed. */
import { OK } from "../core/codes.js";
import { learnedSizes, learnSizes, payableBytes, price, pricedBytes, settlement } from "../core/cost.js";
import { type Cell, spentTokens } from "../core/lease.js";
import type { Account, Outcome } from "./account.js";

/**
 * The method under which an upgrade is priced. It has its own learned sizes: a connection may transfer gigabytes, which
 * must not become the expected size of a request.
 */
export const UPGRADE = "UPGRADE";

/** What is needed of an exchange to price and settle it. */
export interface PaidExchange extends Pick<Outcome, "method" | "profile" | "cost" | "code"> {
  /** The cost that the backend has stated; unset or INVALID_COST: by the bytes. */
  reportedCost?: number | undefined;
}

/** The cost of a finished exchange. A backend cannot state more than the maximum of the profile. */
export function actualCost(
  { method, profile, reportedCost }: Pick<PaidExchange, "method" | "profile" | "reportedCost">,
  requestBytes: number,
  responseBytes: number,
): number {
  if (reportedCost !== undefined && reportedCost >= 0 && reportedCost <= profile.maxCost) return reportedCost;
  return price(profile, method, pricedBytes(profile, requestBytes, responseBytes));
}

/** The sizes of a finished exchange change the estimates of later ones. */
function learnFrom(
  account: Account,
  { method, profile }: Pick<PaidExchange, "method" | "profile">,
  requestBytes: number,
  responseBytes: number,
): void {
  const mostBytes = payableBytes(profile, method, account.limits.burst);
  const learned = learnedSizes(account.learned, profile, method);
  // The bytes of a connection must not raise the expected size of responses.
  if (method === UPGRADE) learnSizes(learned, requestBytes + responseBytes, 0, mostBytes);
  else learnSizes(learned, requestBytes, responseBytes, mostBytes);
}

/**
 * An admitted exchange has ended. Returns the tokens charged (positive) or refunded (negative). In a dry run, nothing was
 * taken for a request with another code than OK, so nothing is settled.
 */
export function settleExchange(
  account: Account,
  exchange: PaidExchange,
  requestBytes: number,
  responseBytes: number,
): number {
  const { cost, code } = exchange;
  learnFrom(account, exchange, requestBytes, responseBytes);
  if (code !== OK) return 0;
  return settleCost(account, cost, actualCost(exchange, requestBytes, responseBytes));
}

/** Corrects what was paid to the actual cost. Returns the tokens charged (positive) or refunded (negative). */
export function settleCost(account: Account, paid: number, actual: number): number {
  const difference = settlement(paid, actual);
  if (difference < 0) putBack(account, 0 - difference);
  else if (difference > 0) account.cell.add(0 - difference);
  return difference;
}

/**
 * Gives tokens back. Those that the store still counts as held are added to the balance. The store may have refilled the
 * bucket for the others, so they go back to it: otherwise more than the burst could be spent at once.
 */
function putBack({ lease, sync, cell, syncCell, refunds }: Account, tokens: number): void {
  // Workers that share a balance do not know what the others have sent.
  const shared = (cell as Cell) !== syncCell;
  const unreported = shared ? 0 : Math.max(spentTokens(lease, cell) - sync.sentSpent, 0);
  const local = Math.min(tokens, unreported);
  if (local > 0) cell.add(local);
  if (local < tokens) refunds.add(tokens - local);
  lease.refusedUntil = 0;
}

/** Refunds tokens, at most as many as this node has spent. */
export function refund(account: Account, tokens: number): void {
  const spent = Math.max(spentTokens(account.lease, account.cell), 0);
  putBack(account, Math.min(tokens, spent));
}
