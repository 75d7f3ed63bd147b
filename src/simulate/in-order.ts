/**
 * Sorts requests by their arrival. Proxies write a line when a request ends, so lines are out of order. Requests with
 * times in whole seconds are spread evenly over their second.
 */
import { createHeap } from "./heap.js";
import type { LoggedRequest } from "./logged-request.js";

export interface InOrderOptions {
  /** How far lines may be out of order. */
  toleranceMs: number;
  /** Maximum number of buffered requests; takes precedence over the tolerance. */
  maxHeld: number;
}

export interface InOrder {
  add(request: LoggedRequest): void;
  /** The next request that no later line can precede; with `all`, the next one in any case. */
  next(all: boolean): LoggedRequest | undefined;
  /** Number of requests that came too late; they get the time of their predecessor. */
  late(): number;
}

const SECOND_MS = 1000;

export function createInOrder({ toleranceMs, maxHeld }: InOrderOptions): InOrder {
  const held = createHeap<LoggedRequest>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  /** Requests of one second that are being returned, starting at index `at`. */
  let sameSecond: LoggedRequest[] = [];
  let at = 0;
  let newest = Number.NEGATIVE_INFINITY;
  let latestOut = Number.NEGATIVE_INFINITY;
  let late = 0;

  /** Takes all requests of the second of `first` and spreads them over it. */
  function spread(first: LoggedRequest): void {
    sameSecond = [first];
    at = 0;
    for (let more = held.first(); more?.coarse && more.at === first.at; more = held.first()) {
      sameSecond.push(held.takeFirst());
    }
    const gap = SECOND_MS / sameSecond.length;
    for (let i = 1; i < sameSecond.length; i++) sameSecond[i]!.at += i * gap;
  }

  function out(request: LoggedRequest): LoggedRequest {
    if (request.at < latestOut) {
      late++;
      request.at = latestOut;
    }
    latestOut = request.at;
    return request;
  }

  return {
    add(request) {
      newest = Math.max(newest, request.at);
      held.add(request);
    },
    next(all) {
      if (at < sameSecond.length) return out(sameSecond[at++]!);
      const first = held.first();
      if (first === undefined) return undefined;
      const waitMs = first.coarse ? Math.max(toleranceMs, SECOND_MS) : toleranceMs;
      if (!all && first.at + waitMs > newest && held.size() <= maxHeld) return undefined;
      held.takeFirst();
      if (!first.coarse) return out(first);
      spread(first);
      return out(sameSecond[at++]!);
    },
    late: () => late,
  };
}
