/** Which pods are asked for a slot: those that have not failed lately, as all workers together have seen it. */

import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { splitText } from "../../../core/platform.js";
import { ngx } from "../ngx.js";
import { keeper } from "./state.js";

const failuresKey = (pod: string) => `failures:${pod}`;
const downKey = (pod: string) => `down:${pod}`;

/** The ones that are well, or all where none is; without `not`. Each time another one is first. */
export function candidates(route: NginxSocketRoute, not: string): string[] {
  const { pods } = route;
  const well: string[] = [];
  const all: string[] = [];
  for (let i = 0; i < pods.length; i++) {
    const at = keeper.turn + i;
    const { pod } = pods[at - Math.floor(at / pods.length) * pods.length]!;
    if (pod !== not) {
      all.push(pod);
      if (keeper.dict.get(downKey(pod)) === undefined) well.push(pod);
    }
  }
  keeper.turn = keeper.turn + 1;
  return well.length > 0 ? well : all;
}

/** The upstream block of nginx that leads to a pod; empty where the pod is none of the route's. */
export function upstreamOf(route: NginxSocketRoute, pod: string): string {
  for (const one of route.pods) if (one.pod === pod) return one.upstream;
  return "";
}

export function podFailed(route: NginxSocketRoute, pod: string): void {
  const { dict } = keeper;
  dict.safe_add(failuresKey(pod), 0);
  const failures = dict.incr(failuresKey(pod), 1) ?? 0;
  if (failures < route.tolerated) return;
  const [, known] = dict.safe_add(downKey(pod), true, route.downMs / 1000);
  if (known === undefined) ngx.log(ngx.WARN, "tollgate: target is passed over: ", pod);
  else dict.safe_set(downKey(pod), true, route.downMs / 1000);
}

export function podSucceeded(pod: string): void {
  const { dict } = keeper;
  const failures = dict.get(failuresKey(pod));
  if (failures === undefined || failures === 0) return;
  dict.safe_set(failuresKey(pod), 0);
  dict.delete(downKey(pod));
}

/** What nginx says of the last pod that it called; it lists all of them. Undefined before the first. */
export function ofLastPod(variable: string): string | undefined {
  const listed = ngx.var[variable];
  if (listed === undefined) return undefined;
  const words = splitText(listed, " ");
  return words[words.length - 1];
}
