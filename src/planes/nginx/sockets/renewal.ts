/**
 * Keeps the leases of this worker's connections: renews them evenly over time, and takes stock whenever the store was away,
 * has forgotten, or the worker itself stood still. Until then no new connection is let in. Each is renewed within a third
 * of its lease; one that lost it is taken anew with its pod named, and ends where there is no room.
 */

import { pcall } from "../../lua/library.js";
import { ABSENT, ANSWERED, MISFIT } from "../../lua/slot-answer.js";
import { freshNowMs, nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { worker } from "../state.js";
import { hangUp } from "./descriptor.js";
import { countLost, countReclaimed } from "./numbers.js";
import { podFailed } from "./pods.js";
import { takeOverFromDead, tellAlive, unregister } from "./registry.js";
import { sendEnded } from "./releases.js";
import { acquireSlot, renewSlots } from "./slots.js";
import { delist, type Held, keeper, nextInTurn } from "./state.js";

/** So many go in one message. */
const BATCH = 1000;
const RECLAIMS_AT_ONCE = 4;
/** Every proxy beats, or finds a store again, well within this time; then all have taken stock. */
const ALL_SETTLED_MS = 3000;
const LOOK_SECONDS = 0.01;
const MEMORY = "memory";

/** So late that leases may have run out meanwhile: the worker stood still. */
function stoodStill(): boolean {
  return nowMs() - keeper.dueAt > keeper.leaseMs / 3;
}

/** One beat: all that has to be done again and again. */
export function keeperBeat(): void {
  freshNowMs();
  if (stoodStill()) keeper.unsettled = true;
  keeper.dueAt = nowMs() + keeper.beatMs;
  tellAlive();
  takeOverFromDead(keeper.ended);
  if (keeper.calling > 0) hangUpSilent();
  if (keeper.busy) return;
  keeper.busy = true;
  const [fine, problem] = pcall(keepAll);
  keeper.busy = false;
  keeper.settling = false;
  if (fine) return;
  keeper.unsettled = true;
  ngx.log(ngx.ERR, "tollgate: leases were not renewed: ", problem);
}

/** As soon as this turn of the event loop is over. */
export function beatSoon(): void {
  ngx.timer.at(0, onBeatTimer);
}

function onBeatTimer(_premature: boolean): void {
  keeperBeat();
}

function keepAll(): void {
  if (keeper.away || keeper.unsettled) settleLeases();
  else {
    if (keeper.memory === "0" && !keeper.misfits) askMemory();
    if (keeper.count > 0) {
      renewInTurn();
      if (keeper.unsettled && !keeper.away) settleLeases();
    }
  }
  if (!keeper.away) sendEnded();
}

/** Also of a worker that holds nothing: knowing of no memory, it would not be told that the store has lost its own. */
function askMemory(): void {
  const { outcome, memory } = renewSlots([], Math.min(worker.settings.timeoutMs, keeper.leaseMs / 3));
  if (outcome === ANSWERED) learnMemory(memory);
  keeper.misfits = outcome === MISFIT;
}

/** A round takes a third of the lease, less a beat for what may be slow. */
function renewInTurn(): void {
  const { leaseMs, beatMs, count } = keeper;
  const roundMs = leaseMs / 3 - beatMs;
  const share = roundMs > 0 ? Math.ceil((count * beatMs) / roundMs) : count;
  let left = Math.min(share, count);
  while (left > 0 && !keeper.away) {
    const batch = nextInTurn(Math.min(left, BATCH));
    left = left - batch.length;
    const without: Held[] = [];
    if (!renew(batch, without)) return;
    // In quiet times no lease is lost. Who finds one looks after all of them.
    if (without.length > 0) keeper.unsettled = true;
  }
}

/** Adds those that turned out to have no lease. False where the store did not answer. */
function renew(batch: Held[], without: Held[]): boolean {
  const answer = renewSlots(batch, Math.min(worker.settings.timeoutMs, keeper.leaseMs / 3));
  if (answer.outcome !== ANSWERED) {
    storeFailed(answer.outcome);
    keeper.unsettled = true;
    return false;
  }
  learnMemory(answer.memory);
  if (answer.lostCount === 0) return true;
  for (const one of batch) if (answer.lost[one.connection] !== undefined && !one.ended) without.push(one);
  return true;
}

export function storeFailed(outcome: string): void {
  if (outcome !== ABSENT || keeper.away) return;
  keeper.away = true;
  keeper.unsettled = true;
  ngx.log(ngx.WARN, "tollgate: connections are kept without the store");
}

/** What the store's answers say about its memory. */
export function learnMemory(told: string): void {
  if (told === "0") return;
  if (keeper.memory !== "0" && told !== keeper.memory) {
    keeper.unsettled = true;
    keeper.heldBackUntil = nowMs() + ALL_SETTLED_MS;
    ngx.log(ngx.WARN, "tollgate: the store has forgotten the connections: they are counted anew");
  }
  if (told !== keeper.memory) keeper.dict.safe_set(MEMORY, told);
  keeper.memory = told;
}

/** A worker that is new knows what those before it knew: should the store have forgotten since, it is told so. */
export function inheritMemory(): void {
  const known = keeper.dict.get(MEMORY);
  if (known !== undefined) keeper.memory = known as string;
}

function settleLeases(): void {
  keeper.unsettled = true;
  keeper.settling = true;
  const all: Held[] = [];
  let next = keeper.first;
  while (next !== undefined) {
    all.push(next);
    next = next.after;
  }
  const without: Held[] = [];
  let remembered = keeper.memory;
  let from = 0;
  // One call finds out whether the store is there, even where there is nothing to renew.
  do {
    const batch: Held[] = [];
    for (let i = from; i < all.length && batch.length < BATCH; i++) if (!all[i]!.ended) batch.push(all[i]!);
    if (!renew(batch, without)) return;
    if (from === 0) {
      remembered = keeper.memory;
      foundStore();
    }
    from = from + BATCH;
  } while (from < all.length);
  // Whose connection has ended makes room for those that live.
  sendEnded();
  for (const one of without) {
    if (one.leased) countLost();
    one.leased = false;
  }
  // A store that forgot in the middle may not know those that came first.
  keeper.unsettled = keeper.memory !== remembered;
  reclaimAll(without);
  keeper.settling = false;
}

function foundStore(): void {
  if (!keeper.away) return;
  keeper.away = false;
  ngx.log(ngx.WARN, "tollgate: connections are kept with the store again");
}

/** What several threads work through together. */
interface Work {
  list: Held[];
  next: number;
}

function reclaimAll(list: Held[]): void {
  if (list.length === 0) return;
  const work: Work = { list, next: 0 };
  const threads: unknown[] = [];
  for (let i = 0; i < RECLAIMS_AT_ONCE && i < list.length; i++) threads.push(ngx.thread.spawn(reclaimSome, work));
  for (const thread of threads) {
    const [fine, problem] = ngx.thread.wait(thread);
    if (fine !== true) {
      keeper.unsettled = true;
      ngx.log(ngx.ERR, "tollgate: a lease was not taken again: ", problem ?? "");
    }
  }
}

function reclaimSome(work: Work): void {
  while (work.next < work.list.length && !keeper.away) {
    const one = work.list[work.next]!;
    work.next = work.next + 1;
    if (!one.ended) reclaim(one);
  }
}

/** The connection lives. Where there is no room for it any more, it must end. */
function reclaim(one: Held): void {
  one.told = true;
  const answer = acquireSlot(one, [one.pod], true, worker.settings.timeoutMs);
  if (answer.outcome !== ANSWERED) {
    storeFailed(answer.outcome);
    keeper.unsettled = true;
    return;
  }
  learnMemory(answer.memory);
  if (one.ended) return;
  if (answer.allowed) {
    one.leased = true;
    countReclaimed();
    return;
  }
  ngx.log(ngx.WARN, "tollgate: no room for a connection that had lost its slot: ", one.pod, " ", answer.code);
  dropHeld(one);
  hangUp(one.descriptor);
}

/** It is counted here no more. */
export function dropHeld(one: Held): void {
  one.ended = true;
  delist(one);
  unregister(one);
  if (!one.answered) keeper.calling = keeper.calling - 1;
}

/** A pod that takes a call and says nothing must not hold a slot for as long as a connection may last. */
function hangUpSilent(): void {
  const since = nowMs() - worker.settings.connections.responseMs;
  let one = keeper.first;
  while (one !== undefined) {
    if (!one.answered && one.calledAt < since) {
      const route = keeper.routes[one.route];
      if (route !== undefined) podFailed(route, one.pod);
      // Once: the request ends by it, and its log phase does the rest.
      one.calledAt = nowMs();
      hangUp(one.descriptor);
    }
    one = one.after;
  }
}

export function takeStock(): void {
  keeper.unsettled = true;
  if (!keeper.busy && !keeper.away) beatSoon();
}

/** Whether the store may be asked for a new connection: true at once, or as soon as stock was taken until then. */
export function isReady(until: number): boolean {
  // A timer may fire after the first connection that comes when the worker goes on.
  if (stoodStill()) takeStock();
  while (keeper.unsettled || keeper.settling || nowMs() < keeper.heldBackUntil) {
    if (keeper.away || nowMs() >= until) return false;
    ngx.sleep(LOOK_SECONDS);
  }
  return !keeper.away;
}
