/** Connections of several routes. Each route is asked separately: one whose store fails delays and hides no other. */
import { StoreError } from "../store/errors.js";
import type { RunOptions } from "../store/store.js";
import type { RouteSlots } from "./slots.js";

export interface CountedRoute {
  route: string;
  total: number;
  /** Refused attempts of all proxies so far. */
  rejected: number;
  perPod: ReadonlyMap<string, number>;
}

export interface CountRequest {
  route: string;
  leaseMs: number;
  pods: string[];
}

/** Throws a StoreError if the store answers for no route. */
export async function countRoutes(slots: Pick<RouteSlots, "of">, asked: CountRequest[], options: RunOptions) {
  const { answers, unavailable } = await onEachRoute(asked, async ({ route, leaseMs, pods }): Promise<CountedRoute> => {
    return { route, ...(await slots.of(route).counts(pods, leaseMs, options)) };
  });
  return { counted: answers, unavailable };
}

/**
 * Calls the store for each route, in parallel. Returns the answers, and the routes for which the store failed. Throws the
 * StoreError if it failed for all, and other errors.
 */
export async function onEachRoute<T extends { route: string }, R>(routes: readonly T[], call: (one: T) => Promise<R>) {
  const settled = await Promise.allSettled(routes.map(call));
  const answers: R[] = [];
  const unavailable: string[] = [];
  let failure: unknown;
  for (const [i, one] of settled.entries()) {
    if (one.status === "fulfilled") answers.push(one.value);
    else {
      if (!(one.reason instanceof StoreError)) throw one.reason;
      failure = one.reason;
      unavailable.push(routes[i]!.route);
    }
  }
  if (answers.length === 0 && failure !== undefined) throw failure;
  return { answers, unavailable };
}
