/** Connections that have ended, until the store has booked it: in batches, and again until it has. */
import { pcall } from "../../lua/library.js";
import { ABSENT, ANSWERED, MISFIT } from "../../lua/slot-answer.js";
import { ngx } from "../ngx.js";
import { worker } from "../state.js";
import { releaseSlots } from "./slots.js";
import { type Ended, keeper } from "./state.js";

/** So many go in one call. */
const BATCH = 250;
/** More are not kept: the leases of the others run out. */
const MOST_WAITING = 20000;

export function addEnded(one: Ended): void {
  if (keeper.ended.length < MOST_WAITING) keeper.ended.push(one);
}

/** After this turn of the event loop, so that all that end in it share a call. Where the phase at hand cannot wait. */
export function sendEndedSoon(): void {
  if (keeper.sending || keeper.away || keeper.ended.length === 0) return;
  // Where no timer can be had, the next beat does it.
  const [set] = ngx.timer.at(0, onReleaseTimer);
  keeper.sending = set === true;
}

function onReleaseTimer(_premature: boolean): void {
  sendGuarded();
}

/** Sends all that wait, unless that is under way. */
export function sendEnded(): void {
  if (keeper.sending || keeper.ended.length === 0) return;
  sendGuarded();
}

function sendGuarded(): void {
  keeper.sending = true;
  const [fine, problem] = pcall(sendAll);
  keeper.sending = false;
  if (!fine) ngx.log(ngx.ERR, "tollgate: slots were not freed: ", problem);
}

function sendAll(): void {
  let booked = true;
  while (booked && keeper.ended.length > 0) {
    const batch = firstOfOneProxy();
    const outcome = releaseSlots(batch[0]!.proxy, batch, worker.settings.timeoutMs);
    // A service without connections has nothing to free.
    booked = outcome === ANSWERED || outcome === MISFIT;
    if (booked) dropSent(batch.length);
    else if (outcome === ABSENT) {
      keeper.away = true;
      keeper.unsettled = true;
    }
  }
}

function firstOfOneProxy(): Ended[] {
  const batch: Ended[] = [];
  const proxy = keeper.ended[0]!.proxy;
  for (let i = 0; i < keeper.ended.length && batch.length < BATCH; i++) {
    const one = keeper.ended[i]!;
    if (one.proxy !== proxy) return batch;
    batch.push(one);
  }
  return batch;
}

/** What came meanwhile stands behind them. */
function dropSent(count: number): void {
  const rest: Ended[] = [];
  for (let i = count; i < keeper.ended.length; i++) rest.push(keeper.ended[i]!);
  keeper.ended = rest;
}
