/** Which pods are asked for a slot: those that have not failed lately, as all workers of this Envoy together have seen it. */

import type { EnvoySocketRoute } from "../../../config/options/plane-options.js";
import type { Gauge, Handle } from "../envoy-api.js";
import { sockets } from "./state.js";

/** As many as one call of the service takes. */
const MOST_PODS = 500;

/** Workers share no memory but Envoy's statistics, which have the advantage that operators see them, too. */
const gaugeOf = (handle: Handle, name: string): Gauge => handle.stats().gauge(`tollgate.${name}`);
/** Milliseconds since 1970 until which some pod is passed over; so that in good times one look is enough. */
const SOME_DOWN_UNTIL = "pods_down_until";
const downUntil = (pod: string) => `pod_down_until.${pod}`;

/** The ones that are well, or all where none is. Each time another one is first. */
export function candidates(handle: Handle, route: EnvoySocketRoute, now: number): string[] {
  const { pods } = route;
  const someDown = gaugeOf(handle, SOME_DOWN_UNTIL).value() > now;
  const well: string[] = [];
  const all: string[] = [];
  for (let i = 0; i < pods.length && i < MOST_PODS; i++) {
    const at = sockets.turn + i;
    const pod = pods[at - Math.floor(at / pods.length) * pods.length]!;
    all.push(pod);
    if (!someDown || gaugeOf(handle, downUntil(pod)).value() <= now) well.push(pod);
  }
  sockets.turn = sockets.turn + 1;
  return well.length > 0 ? well : all;
}

/** Nobody gets a second pod here, so the first failure is enough. True when that is news. */
export function podFailed(handle: Handle, route: EnvoySocketRoute, pod: string, now: number): boolean {
  const until = Math.ceil(now + route.downMs);
  const known = gaugeOf(handle, downUntil(pod));
  const isNews = known.value() <= now;
  known.set(until);
  const some = gaugeOf(handle, SOME_DOWN_UNTIL);
  if (some.value() < until) some.set(until);
  return isNews;
}

export function podSucceeded(handle: Handle, pod: string): void {
  const known = gaugeOf(handle, downUntil(pod));
  if (known.value() > 0) known.set(0);
}
