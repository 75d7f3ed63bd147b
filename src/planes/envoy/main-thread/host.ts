/** Envoy's main thread as the host of the Lua plane: it alone sends messages. */
import type { Outcome } from "../../../engine/account.js";
import { decideWithoutStore } from "../../../engine/decide.js";
import type { LuaSyncHost } from "../../lua/host.js";
import { accountFunctions } from "../../lua/http/accounts.js";
import { syncFunctions } from "../../lua/http/syncer.js";
import type { Caller } from "../../lua/proxy.js";
import { systemNowMs } from "../../lua/system-clock.js";
import { logError, logWarning } from "../module-api.js";
import { moduleMemory } from "../module-memory.js";
import { callService } from "./service-calls.js";
import { socketDetails } from "./socket-messages.js";
import { after, runAll, sleepMs, start } from "./tasks.js";
import { wakeWaiter } from "./waiting.js";

export const mainHost: LuaSyncHost = {
  ...accountFunctions,
  ...syncFunctions,
  plane: "envoy",
  memory: moduleMemory,
  nowMs: systemNowMs,
  freshNowMs: systemNowMs,
  soon,
  spawn,
  runAll,
  sleep,
  takeLock: isAlone,
  holdsLock: isAlone,
  releaseLock: nothing,
  callService,
  awaitTokens,
  wake: wakeWaiter,
  logWarning,
  logError,
  nodeDetails: socketDetails,
};

function soon(this: void, work: (this: void) => void): boolean {
  after(0, work);
  return true;
}

function spawn<T>(this: void, work: (this: void, given: T) => void, given: T): void {
  start(() => work(given));
}

function sleep(this: void, seconds: number): void {
  sleepMs(seconds * 1000);
}

/** There is one main thread, so it needs no lock. */
function isAlone(this: void, _caller: Caller): boolean {
  return true;
}

function nothing(this: void, _caller: Caller): void {}

/** The main thread has no requests of its own. */
function awaitTokens(this: void, outcomes: Outcome[]): void {
  for (const outcome of outcomes) decideWithoutStore(outcome.account.node, outcome, systemNowMs());
}
