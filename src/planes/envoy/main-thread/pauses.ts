/** Bodies of all workers that ask again for tokens after a while. */
import { storedNumber } from "../../../core/platform.js";
import { nowMs } from "../../lua/host.js";
import { lib, state } from "../module-api.js";
import { after } from "./tasks.js";

interface Pause {
  waiter: number;
  until: number;
}

const pauses: { list: Pause[]; watches: boolean } = { list: [], watches: false };

/** One task for all pauses looks at them this often. */
const WATCH_MS = 10;

/** Words of the message. */
export function startPause(words: string[]): void {
  const waiter = storedNumber(words[1] ?? false, -1);
  pauses.list.push({ waiter, until: nowMs() + storedNumber(words[2] ?? false, 0) });
  watchSoon();
}

function watchSoon(): void {
  if (pauses.watches) return;
  pauses.watches = true;
  after(WATCH_MS, watch);
}

function watch(this: void): void {
  pauses.watches = false;
  const now = nowMs();
  const { list } = pauses;
  pauses.list = [];
  for (const pause of list) {
    if (pause.until <= now) end(pause);
    else pauses.list.push(pause);
  }
  if (pauses.list.length > 0) watchSoon();
}

function end({ waiter }: Pause): void {
  lib.tollgate_answer(state, waiter, "", 0);
}

/** Another version of the script replaces this one, and will be asked. */
export function endPauses(): void {
  for (const pause of pauses.list) end(pause);
  pauses.list = [];
}
