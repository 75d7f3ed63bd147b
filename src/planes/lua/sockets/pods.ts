/** Health of the pods, learned from failed upgrades and shared by all workers. */
import { running } from "../host.js";
import { type PlaneSocketRoute, slotHome } from "./state.js";

const failuresKey = (pod: string) => `failures:${pod}`;
const downKey = (pod: string) => `down:${pod}`;

/** Seen by all workers together. */
export function isDown(this: void, pod: string): boolean {
  return slotHome.memory.get(downKey(pod)) !== undefined;
}

export function podFailed(route: PlaneSocketRoute, pod: string): void {
  const { memory } = slotHome;
  memory.safe_add(failuresKey(pod), 0);
  const failures = memory.incr(failuresKey(pod), 1) ?? 0;
  if (failures < route.tolerated) return;
  const [, known] = memory.safe_add(downKey(pod), true, route.downMs / 1000);
  if (known === undefined) running.sync.logWarning(`tollgate: target is down: ${pod}`);
  else memory.safe_set(downKey(pod), true, route.downMs / 1000);
}

export function podSucceeded(pod: string): void {
  const { memory } = slotHome;
  const failures = memory.get(failuresKey(pod));
  if (failures === undefined || failures === 0) return;
  memory.safe_set(failuresKey(pod), 0);
  memory.delete(downKey(pod));
}
