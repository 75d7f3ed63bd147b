/** The lock for syncs with a shard: one worker at a time. It expires, so that a dead worker is replaced. */
import { luaString } from "../lua/library.js";
import { ngx } from "./ngx.js";
import { type NginxNode, worker } from "./state.js";

function lockKey({ suffix }: NginxNode): string {
  return `lock${suffix}`;
}

/** Lifetime beyond the deadline of the call. */
const SPARE_SECONDS = 0.5;

function owner(): string {
  return luaString.format("%d", ngx.worker.pid());
}

export function takeLock(node: NginxNode): boolean {
  const [taken] = worker.dict.safe_add(lockKey(node), owner(), worker.options.timeoutMs / 1000 + SPARE_SECONDS);
  return taken === true;
}

/** False if it expired during a pause: another worker may have continued. */
export function holdsLock(node: NginxNode): boolean {
  return worker.dict.get(lockKey(node)) === owner();
}

export function releaseLock(node: NginxNode): void {
  if (holdsLock(node)) worker.dict.delete(lockKey(node));
}
