/**
 * Puts requests in the order of their arrival. Proxies write a line when the exchange has ended, so lines that began
 * earlier may come later; and where a log has whole seconds only, the requests of a second are spread over it evenly.
 */
import { createHeap } from "./heap.js";
import type { LoggedRequest } from "./logged-request.js";

export interface InOrderOptions {
  /** A line may come so much later than lines of requests that arrived after it. */
  toleranceMs: number;
  /** More are never held back; then the tolerance is what it can be. */
  mostHeld: number;
}

export interface InOrder {
  add(request: LoggedRequest): void;
  /** The next one that nothing can come before any more. With `all`, the next one in any case. */
  next(all: boolean): LoggedRequest | undefined;
  /** How many came too late to be put in their place, and have the time of the one before. */
  late(): number;
}

const SECOND_MS = 1000;

export function createInOrder({ toleranceMs, mostHeld }: InOrderOptions): InOrder {
  const held = createHeap<LoggedRequest>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  /** Requests of one second, on their way out; `at` is where to go on. */
  let crowd: LoggedRequest[] = [];
  let at = 0;
  let newest = Number.NEGATIVE_INFINITY;
  let latestOut = Number.NEGATIVE_INFINITY;
  let late = 0;

  /** All of the second that `first` is of, each with its share of it. */
  function spread(first: LoggedRequest): void {
    crowd = [first];
    at = 0;
    for (let more = held.first(); more?.coarse && more.at === first.at; more = held.first()) {
      crowd.push(held.takeFirst());
    }
    const gap = SECOND_MS / crowd.length;
    for (let i = 1; i < crowd.length; i++) crowd[i]!.at += i * gap;
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
      if (at < crowd.length) return out(crowd[at++]!);
      const first = held.first();
      if (first === undefined) return undefined;
      const patience = first.coarse ? Math.max(toleranceMs, SECOND_MS) : toleranceMs;
      if (!all && first.at + patience > newest && held.size() <= mostHeld) return undefined;
      held.takeFirst();
      if (!first.coarse) return out(first);
      spread(first);
      return out(crowd[at++]!);
    },
    late: () => late,
  };
}
