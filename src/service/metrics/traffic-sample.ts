/** The last decisions of a process for simulations: time, app, method and cost. No payloads, paths, users or addresses. */
import { methodLabels, OTHER_METHODS } from "./labels.js";

const KEPT = 20_000;
const MAX_AGE_MS = 15 * 60_000;

export type TrafficSample = ReturnType<ReturnType<typeof createTrafficSample>["list"]>;

/** A ring of fixed size: 400 KB, allocated with the first request. */
export function createTrafficSample() {
  let ring: ReturnType<typeof newRing> | undefined;
  let next = 0;
  let numbers = new Map<string, number>();
  let names: string[] = [];

  function numberOf(app: string): number {
    const known = numbers.get(app);
    if (known !== undefined) return known;
    numbers.set(app, names.length);
    return names.push(app) - 1;
  }

  return {
    /** @param app a configured app @param at Unix time in milliseconds */
    add(app: string, method: string, cost: number, at: number): void {
      ring ??= newRing();
      const i = next++ % KEPT;
      ring.at[i] = at;
      ring.app[i] = numberOf(app);
      ring.method[i] = Math.max(methodLabels.indexOf(method), 0);
      ring.cost[i] = cost;
    },
    /** Oldest first. */
    list(now: number) {
      const requests: [at: number, app: string, method: string, cost: number][] = [];
      for (let n = Math.max(next - KEPT, 0); n < next && ring !== undefined; n++) {
        const i = n % KEPT;
        const at = ring.at[i]!;
        if (at < now - MAX_AGE_MS) continue;
        const method = methodLabels[ring.method[i]!]!;
        requests.push([at, names[ring.app[i]!]!, method === OTHER_METHODS ? "GET" : method, ring.cost[i]!]);
      }
      return requests;
    },
    /** After a change of the configuration: apps may have been removed, and costs computed differently. */
    clear(): void {
      [ring, next, numbers, names] = [undefined, 0, new Map(), []];
    },
  };
}

function newRing() {
  return {
    at: new Float64Array(KEPT),
    app: new Uint32Array(KEPT),
    method: new Uint8Array(KEPT),
    cost: new Float64Array(KEPT),
  };
}
