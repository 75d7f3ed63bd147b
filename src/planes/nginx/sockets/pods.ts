/** Health of the pods, learned from failed upgrades and shared by all workers. */
import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { splitText } from "../../../core/platform.js";
import { ngx } from "../ngx.js";
import { sockets } from "./state.js";

const failuresKey = (pod: string) => `failures:${pod}`;
const downKey = (pod: string) => `down:${pod}`;

/** Seen by all workers together. */
export function isDown(this: void, pod: string): boolean {
  return sockets.dict.get(downKey(pod)) !== undefined;
}

export function podFailed(route: NginxSocketRoute, pod: string): void {
  const { dict } = sockets;
  dict.safe_add(failuresKey(pod), 0);
  const failures = dict.incr(failuresKey(pod), 1) ?? 0;
  if (failures < route.tolerated) return;
  const [, known] = dict.safe_add(downKey(pod), true, route.downMs / 1000);
  if (known === undefined) ngx.log(ngx.WARN, "tollgate: target is down: ", pod);
  else dict.safe_set(downKey(pod), true, route.downMs / 1000);
}

export function podSucceeded(pod: string): void {
  const { dict } = sockets;
  const failures = dict.get(failuresKey(pod));
  if (failures === undefined || failures === 0) return;
  dict.safe_set(failuresKey(pod), 0);
  dict.delete(downKey(pod));
}

/** Value of a variable for the last pod that nginx tried; it lists all of them. Undefined before the first. */
export function ofLastPod(variable: string): string | undefined {
  const listed = ngx.var[variable];
  if (listed === undefined) return undefined;
  const words = splitText(listed, " ");
  return words[words.length - 1];
}
