/** nginx as the host of the Lua plane. */
import type { LuaSyncHost } from "../lua/host.js";
import { accountFunctions } from "../lua/http/accounts.js";
import { worker } from "../lua/http/state.js";
import { syncFunctions } from "../lua/http/syncer.js";
import { luaString } from "../lua/library.js";
import type { Caller, SharedMemory } from "../lua/proxy.js";
import { freshNowMs, nowMs } from "./clock.js";
import { ngx } from "./ngx.js";
import { callService } from "./service-client.js";
import { socketDetails } from "./status.js";
import { awaitTokens, wakeWaiter } from "./waiting.js";

export function nginxHost(memory: SharedMemory): LuaSyncHost {
  return {
    ...accountFunctions,
    ...syncFunctions,
    plane: "nginx",
    memory,
    nowMs,
    freshNowMs,
    soon,
    spawn,
    runAll,
    sleep,
    takeLock,
    holdsLock,
    releaseLock,
    callService,
    awaitTokens,
    wake: wakeWaiter,
    logWarning,
    logError,
    nodeDetails: socketDetails,
  };
}

function soon(this: void, work: (this: void) => void): boolean {
  const [set] = ngx.timer.at(0, () => work());
  return set === true;
}

function spawn<T>(this: void, work: (this: void, given: T) => void, given: T): void {
  ngx.thread.spawn(work, given);
}

function runAll<T>(this: void, work: (this: void, given: T) => void, given: readonly T[]): void {
  const threads: unknown[] = [];
  for (const one of given) threads.push(ngx.thread.spawn(work, one));
  for (const thread of threads) ngx.thread.wait(thread);
}

function sleep(this: void, seconds: number): void {
  ngx.sleep(seconds);
}

function logWarning(this: void, text: string): void {
  ngx.log(ngx.WARN, text);
}

function logError(this: void, text: string): void {
  ngx.log(ngx.ERR, text);
}

// The lock for syncs with a shard: one worker at a time. It expires, so that a dead worker is replaced.

function lockKey({ suffix }: Caller): string {
  return `lock${suffix}`;
}

/** Lifetime beyond the deadline of the call. */
const SPARE_SECONDS = 0.5;

function owner(): string {
  return luaString.format("%d", ngx.worker.pid());
}

function takeLock(node: Caller): boolean {
  const [taken] = worker.dict.safe_add(lockKey(node), owner(), worker.options.timeoutMs / 1000 + SPARE_SECONDS);
  return taken === true;
}

/** False if it expired during a pause: another worker may have continued. */
function holdsLock(node: Caller): boolean {
  return worker.dict.get(lockKey(node)) === owner();
}

function releaseLock(node: Caller): void {
  if (holdsLock(node)) worker.dict.delete(lockKey(node));
}
