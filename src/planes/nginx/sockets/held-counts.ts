/** Number of connections that all workers of this nginx hold, in shared memory: the limits that apply without the store. */
import type { SlotCounters } from "../../../engine/slots/without-store.js";
import { luaString } from "../../lua/library.js";
import { sockets } from "./state.js";

function add(key: string, by: number): number {
  const { dict } = sockets;
  dict.safe_add(key, 0);
  return dict.incr(key, by) ?? 0;
}

export const heldCounts: SlotCounters = {
  addPod(pod, by) {
    return add(`pod:${pod}`, by);
  },
  addApp(app, by) {
    return add(`app:${app}`, by);
  },
  addTotal(by) {
    return add("total", by);
  },
  /** `burst` marks are used in turn, and each exists for the length of the window: the oldest must have expired. */
  takeRate({ route, burst, windowMs }) {
    const counter = `turn:${route}`;
    const turn = add(counter, 1);
    const mark = luaString.format("turn:%s %d", route, turn - Math.floor(turn / burst) * burst);
    const [taken] = sockets.dict.safe_add(mark, true, windowMs / 1000);
    if (taken === true) return true;
    add(counter, -1);
    return false;
  },
};

export function countHeld(pod: string, app: string, by: number): void {
  heldCounts.addPod(pod, by);
  heldCounts.addApp(app, by);
  heldCounts.addTotal(by);
}
