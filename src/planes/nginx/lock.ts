/** The lock for syncs: one worker at a time. It expires, so that a dead worker is replaced. */
import { luaString } from "../lua/library.js";
import { ngx } from "./ngx.js";
import { worker } from "./state.js";

const LOCK = "lock";
/** Lifetime beyond the deadline of the call. */
const SPARE_SECONDS = 0.5;

function owner(): string {
  return luaString.format("%d", ngx.worker.pid());
}

export function takeLock(): boolean {
  const [taken] = worker.dict.safe_add(LOCK, owner(), worker.options.timeoutMs / 1000 + SPARE_SECONDS);
  return taken === true;
}

/** False if it expired during a pause: another worker may have continued. */
export function holdsLock(): boolean {
  return worker.dict.get(LOCK) === owner();
}

export function releaseLock(): void {
  if (holdsLock()) worker.dict.delete(LOCK);
}
