/** The main thread: handles what workers tell it, sends messages, and ticks. */
import { splitText, storedNumber } from "../../../core/platform.js";
import { activate } from "../../../engine/node.js";
import { nowMs, running } from "../../lua/host.js";
import { leave } from "../../lua/http/leaving.js";
import { beginWorker, catchUpAll, startPlane } from "../../lua/http/start.js";
import { worker } from "../../lua/http/state.js";
import { runSyncs, wake } from "../../lua/http/syncer.js";
import { sweepValues } from "../../lua/http/value-sweep.js";
import { pcall } from "../../lua/library.js";
import { ANSWERED, ENDED, HOLD, LOST, LOW, PAUSE, RELEASE, SLOT, UNREACHED, USED, WAIT } from "../messages.js";
import { lib, logError, resultText, state } from "../module-api.js";
import { envoy } from "../module-state.js";
import { attributeReader } from "../worker/request.js";
import { mainHost } from "./host.js";
import { endPauses, startPause } from "./pauses.js";
import { callsLost, giveUpLateCalls } from "./service-calls.js";
import { closeSockets, handOverSockets, leaveSockets, startPlacing, takeOver, takeRelease } from "./socket-messages.js";
import { beginSockets, connectionEnded, podAnswered, podUnreached } from "./sockets.js";
import { after, runTimers, start } from "./tasks.js";
import { accountOfId, handOver, startWaiting } from "./waiting.js";

export function startMainThread(): void {
  running.sync = mainHost;
  startPlane(mainHost, envoy.options, attributeReader);
  beginWorker();
  beginSockets();
  after(0, tick);
}

/** Workers have told something, or a task is due. */
export function woken(this: void): void {
  readMessages();
  runTimers();
}

function readMessages(): void {
  while (lib.tollgate_message(state) === 1) {
    // One message must not prevent the next.
    const [fine, problem] = pcall(readMessage, resultText());
    if (!fine) logError(`tollgate: ${problem}`);
  }
}

function readMessage(this: void, text: string): void {
  const words = splitText(text, " ");
  const kind = words[0];
  if (kind === WAIT) startWaiting(words);
  else if (kind === PAUSE) startPause(words);
  else if (kind === LOST) callsLost(storedNumber(words[1] ?? false, 0));
  else if (kind === SLOT) startPlacing(words);
  else if (kind === ANSWERED) podAnswered(words[1] ?? "");
  else if (kind === UNREACHED) podUnreached(words[1] ?? "");
  else if (kind === ENDED) connectionEnded(words[1] ?? "");
  else if (kind === HOLD) takeOver(words);
  else if (kind === RELEASE) takeRelease(words);
  else if (kind === LOW || kind === USED) {
    const account = accountOfId(words[1] ?? "");
    if (account === undefined) return;
    if (kind === LOW) wake(account);
    else activate(account.node, account);
  }
}

function tick(this: void): void {
  if (exit.begun) return;
  after(worker.options.lease.syncIntervalMs, tick);
  lib.tollgate_tick_workers(state);
  readMessages();
  catchUpAll();
  // Workers of an earlier configuration may still settle exchanges of former apps.
  for (const account of worker.accounts) if (account.leaving) activate(account.node, account);
  sweepValues(nowMs());
  giveUpLateCalls();
  runSyncs();
}

const exit = { begun: false };

/** Envoy exits, and workers reset new requests. All slots and tokens are returned; Envoy waits for it, but not long. */
export function leaveEnvoy(this: void): void {
  exit.begun = true;
  closeSockets();
  readMessages();
  start(() => {
    const [fine, problem] = pcall(leaveAll);
    if (!fine) logError(`tollgate: ${problem}`);
    lib.tollgate_left(state);
  });
  runTimers();
}

function leaveAll(this: void): void {
  leaveSockets();
  leave();
}

export function retire(this: void): void {
  handOver();
  endPauses();
  handOverSockets();
}
