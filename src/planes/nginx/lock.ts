/** Only one worker at a time talks to the store. Its lock runs out, so that one that dies is replaced. */
import { luaString } from "../lua/library.js";
import { ngx } from "./ngx.js";
import { worker } from "./state.js";

const LOCK = "lock";
/** Beyond the deadline of the call that is made under it. */
const SPARE_SECONDS = 0.5;

function owner(): string {
  return luaString.format("%d", ngx.worker.pid());
}

export function takeLock(): boolean {
  const [taken] = worker.dict.safe_add(LOCK, owner(), worker.settings.timeoutMs / 1000 + SPARE_SECONDS);
  return taken === true;
}

/** False after a pause in which it ran out: another worker may have gone on. */
export function holdsLock(): boolean {
  return worker.dict.get(LOCK) === owner();
}

export function releaseLock(): void {
  if (holdsLock()) worker.dict.delete(LOCK);
}
