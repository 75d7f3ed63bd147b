/** Health of the pods, learned from failed upgrades and shared by all workers of this Envoy. */
import type { EnvoySocketRoute } from "../../../config/options/plane-options.js";
import type { Gauge, Handle } from "../envoy-api.js";

/** Envoy's statistics are the only memory that workers share. Operators can see them, too. */
const gaugeOf = (handle: Handle, name: string): Gauge => handle.stats().gauge(`tollgate.${name}`);
/** Until when any pod is down, milliseconds since 1970: while all are up, one look is enough. */
const SOME_DOWN_UNTIL = "pods_down_until";
const downUntil = (pod: string) => `pod_down_until.${pod}`;

/** Returns a function for `candidatePods`. */
export function podHealth(handle: Handle, now: number) {
  const someDown = gaugeOf(handle, SOME_DOWN_UNTIL).value() > now;
  return (pod: string) => someDown && gaugeOf(handle, downUntil(pod)).value() > now;
}

/** One failure is enough, because an upgrade cannot be retried on another pod here. Returns true if the pod was up before. */
export function podFailed(handle: Handle, route: EnvoySocketRoute, pod: string, now: number): boolean {
  const until = Math.ceil(now + route.downMs);
  const known = gaugeOf(handle, downUntil(pod));
  const wasUp = known.value() <= now;
  known.set(until);
  const some = gaugeOf(handle, SOME_DOWN_UNTIL);
  if (some.value() < until) some.set(until);
  return wasUp;
}

export function podSucceeded(handle: Handle, pod: string): void {
  const known = gaugeOf(handle, downUntil(pod));
  if (known.value() > 0) known.set(0);
}
