/**
 * Sorts requests by their arrival. Proxies write a line when a request ends, so lines are out of order. Requests with
 * times in whole seconds are spread evenly over their second.
 */
import type { LoggedRequest } from "./logged-request.js";

const SECOND_MS = 1000;

/** Lines may be out of order by `toleranceMs`, but no more than `maxHeld` requests are buffered. */
export function createInOrder(toleranceMs: number, maxHeld: number) {
  const held: LoggedRequest[] = [];
  let newest = Number.NEGATIVE_INFINITY;
  let latestOut = Number.NEGATIVE_INFINITY;
  let late = 0;

  const isReady = ({ at, coarse }: LoggedRequest) =>
    at + (coarse ? Math.max(toleranceMs, SECOND_MS) : toleranceMs) <= newest;

  /** Spreads the requests of one second and returns the place after them. */
  function spread(from: number): number {
    const { at, coarse } = held[from]!;
    let end = from + 1;
    while (coarse && held[end]?.coarse && held[end]?.at === at) end++;
    for (const [i, request] of held.slice(from, end).entries()) request.at += (i * SECOND_MS) / (end - from);
    return end;
  }

  return {
    add(request: LoggedRequest): void {
      newest = Math.max(newest, request.at);
      held.push(request);
    },
    /** The requests that no later line can precede; with `all`, all of them. */
    take(all: boolean): LoggedRequest[] {
      // Fast, because most of them are sorted already.
      held.sort((a, b) => a.at - b.at || a.order - b.order);
      let end = 0;
      while (end < held.length && (all || isReady(held[end]!) || held.length - end > maxHeld)) end = spread(end);
      const ready = held.splice(0, end);
      for (const request of ready) {
        if (request.at < latestOut) late++;
        latestOut = Math.max(latestOut, request.at);
        request.at = latestOut;
      }
      return ready;
    },
    /** Number of requests that came too late; they get the time of their predecessor. */
    late: () => late,
  };
}
