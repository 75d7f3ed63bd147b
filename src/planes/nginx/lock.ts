/** The lock for syncs with a shard: one worker at a time. It expires, so that a dead worker is replaced. */

import { worker } from "../lua/http/state.js";
import { luaString } from "../lua/library.js";
import type { Caller } from "../lua/proxy.js";
import { ngx } from "./ngx.js";

function lockKey({ suffix }: Caller): string {
  return `lock${suffix}`;
}

/** Lifetime beyond the deadline of the call. */
const SPARE_SECONDS = 0.5;

function owner(): string {
  return luaString.format("%d", ngx.worker.pid());
}

export function takeLock(node: Caller): boolean {
  const [taken] = worker.dict.safe_add(lockKey(node), owner(), worker.options.timeoutMs / 1000 + SPARE_SECONDS);
  return taken === true;
}

/** False if it expired during a pause: another worker may have continued. */
export function holdsLock(node: Caller): boolean {
  return worker.dict.get(lockKey(node)) === owner();
}

export function releaseLock(node: Caller): void {
  if (holdsLock(node)) worker.dict.delete(lockKey(node));
}
