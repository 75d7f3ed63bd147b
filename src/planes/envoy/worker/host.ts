/** A worker thread of Envoy as the host of the Lua plane: it decides and settles. The main thread sends messages for it. */
import { splitText, storedNumber, wholeText } from "../../../core/platform.js";
import { type DecisionSource, type Outcome, PENDING } from "../../../engine/account.js";
import { conclude, decideWithoutStore } from "../../../engine/decide.js";
import type { LuaHost } from "../../lua/host.js";
import { accountFunctions } from "../../lua/http/accounts.js";
import { flushCounts } from "../../lua/http/counters.js";
import { readAccount } from "../../lua/http/records.js";
import { catchUpAll } from "../../lua/http/start.js";
import { type PlaneAccount, worker } from "../../lua/http/state.js";
import { forgetUnused } from "../../lua/http/value-sweep.js";
import { luaTable } from "../../lua/library.js";
import { systemNowMs } from "../../lua/system-clock.js";
import { ANSWER_WORDS, LOW, PAUSE, USED, WAIT } from "../messages.js";
import { coroutine, lib, logError, resultText, state } from "../module-api.js";
import { moduleMemory } from "../module-memory.js";

export const workerHost: LuaHost = {
  ...accountFunctions,
  plane: "envoy",
  memory: moduleMemory,
  nowMs: systemNowMs,
  awaitTokens,
  wantTokens,
  logError,
};

function tell(text: string): boolean {
  return lib.tollgate_tell(state, text, text.length) === 1;
}

/** A main thread that is this late does not decide: its answer would come too late. */
const LATE_MS = 20;

/** The main thread decides; the request continues in `tollgate_answered` of the module. */
function awaitTokens(this: void, outcomes: Outcome<PlaneAccount>[]): void {
  const waiter = lib.tollgate_wait(state, worker.options.timeoutMs + LATE_MS);
  const deadline = systemNowMs() + worker.options.timeoutMs;
  const words = [WAIT, wholeText(waiter), wholeText(Math.floor(deadline))];
  for (const outcome of outcomes) {
    outcome.code = PENDING;
    words.push(outcome.account.limits.id);
    words.push(wholeText(outcome.cost));
  }
  if (waiter < 0 || !tell(luaTable.concat(words, " "))) {
    decideAlone(outcomes);
    return;
  }
  coroutine.yield();
  const answer = lib.tollgate_answered(state) === 1 ? splitText(resultText(), " ") : [];
  if (answer.length < outcomes.length * ANSWER_WORDS) decideAlone(outcomes);
  else for (let i = 0; i < outcomes.length; i++) readAnswer(outcomes[i]!, answer, i * ANSWER_WORDS);
}

/** Returns after this time; false, at once, if the stream has ended or too many wait. */
export function awaitPause(milliseconds: number): boolean {
  const waiter = lib.tollgate_wait(state, 0);
  if (waiter < 0 || !tell(`${PAUSE} ${wholeText(waiter)} ${wholeText(Math.ceil(milliseconds))}`)) return false;
  coroutine.yield();
  return lib.tollgate_answered(state) === 1;
}

function readAnswer(outcome: Outcome<PlaneAccount>, words: string[], at: number): void {
  // The reply has changed the record: what the client sees as remaining must not be older.
  readAccount(outcome.account);
  outcome.retryAfterMs = storedNumber(words[at + 2]!, 0);
  conclude(outcome, words[at + 1] as DecisionSource, words[at]!, storedNumber(words[at + 3]!, 0));
}

function decideAlone(outcomes: Outcome<PlaneAccount>[]): void {
  for (const outcome of outcomes) decideWithoutStore(outcome.account.node, outcome, systemNowMs());
}

/** The main thread is not told again within this time. */
const LOW_GAP_MS = 10;

/** `lookAt` is free here, because only the main thread plans messages. */
function wantTokens(this: void, account: PlaneAccount): void {
  const now = systemNowMs();
  const elapsed = now - account.lookAt;
  if (elapsed >= 0 && elapsed < LOW_GAP_MS) return;
  account.lookAt = now;
  tell(`${LOW} ${account.limits.id}`);
}

/** Once per sync interval. The main thread calls it while this worker handles no request. */
export function tickWorker(this: void): void {
  flushCounts();
  catchUpAll();
  for (const node of worker.nodes) {
    for (const account of node.active) {
      account.active = false;
      account.urgent = false;
      tell(`${USED} ${account.limits.id}`);
    }
    if (node.active.length > 0) node.active = [];
    if (node.urgent.length > 0) node.urgent = [];
  }
  forgetUnused(systemNowMs());
}
