/** Requests of all workers that wait for tokens. The main thread decides them with the replies of the service. */
import { OK } from "../../../core/codes.js";
import { MISS } from "../../../core/lease.js";
import { storedNumber, wholeText } from "../../../core/platform.js";
import { newOutcome, type Outcome, type Waiter } from "../../../engine/account.js";
import { conclude, DECIDED_SYNC, decideMiss, WAIT as HAS_TO_WAIT } from "../../../engine/decide.js";
import { activate } from "../../../engine/node.js";
import { giveBackPaid } from "../../../engine/payments.js";
import { giveUpLate } from "../../../engine/sync-loop.js";
import { addWaiter, newWaiter } from "../../../engine/waiters.js";
import { limitOfBucket } from "../../../limit-rules/limit-rules.js";
import { nowMs, running } from "../../lua/host.js";
import { balanceKey, type PlaneAccount, worker } from "../../lua/http/state.js";
import { wake, wakeWaiting } from "../../lua/http/syncer.js";
import { keepValue, loadValue } from "../../lua/http/values.js";
import { luaString, luaTable } from "../../lua/library.js";
import { ruleOfName } from "../../lua/limit-matches.js";
import { WAIT } from "../messages.js";
import { lib, state } from "../module-api.js";
import { after } from "./tasks.js";

/** The accounts for which one request waits. */
interface Group {
  waiter: number;
  deadline: number;
  outcomes: Outcome<PlaneAccount>[];
  pending: number;
  /** In the list of groups. */
  place: number;
}

interface GroupWaiter extends Waiter {
  group: Group;
}

const waiting: { groups: Group[]; watches: boolean } = { groups: [], watches: false };

/** Waiters that were granted too little ask again, and deadlines are checked, this often. */
const WATCH_MS = 2;

/** The account of an app, or of a value that some worker has used. */
export function accountOfId(id: string): PlaneAccount | undefined {
  const known = worker.byId[id];
  if (known !== undefined) return known;
  const name = limitOfBucket(id);
  if (name === "" || worker.dict.get(balanceKey(id)) === undefined) return undefined;
  return loadValue(id, ruleOfName(name));
}

/** Words of the message. */
export function startWaiting(words: string[]): void {
  const waiter = storedNumber(words[1] ?? false, -1);
  const deadline = storedNumber(words[2] ?? false, 0);
  // The worker decides without the store, or has done so.
  if (nowMs() >= deadline) {
    lib.tollgate_answer(state, waiter, "", 0);
    return;
  }
  const group: Group = { waiter, deadline, outcomes: [], pending: 0, place: 0 };
  for (let i = 3; i + 1 < words.length; i += 2) {
    const account = accountOfId(words[i]!);
    // An app of another configuration: the worker decides without the store.
    if (account === undefined) {
      giveBackPaid(running.host, group.outcomes);
      lib.tollgate_answer(state, waiter, "", 0);
      return;
    }
    join(group, account, storedNumber(words[i + 1]!, 0));
  }
  if (group.pending === 0) {
    answer(group);
    return;
  }
  group.place = waiting.groups.length;
  waiting.groups.push(group);
  watchSoon();
}

function join(group: Group, account: PlaneAccount, cost: number): void {
  const outcome = newOutcome(account, "", cost);
  group.outcomes.push(outcome);
  keepValue(account);
  activate(account.node, account);
  const left = account.cell.take(cost);
  if (left !== MISS) {
    conclude(outcome, "remote", OK, left);
    return;
  }
  const step = decideMiss(account.node, outcome, nowMs());
  if (step === DECIDED_SYNC) wake(account);
  if (step !== HAS_TO_WAIT) return;
  const waiter = newWaiter(outcome, group.deadline) as GroupWaiter;
  waiter.group = group;
  group.pending = group.pending + 1;
  addWaiter(account, waiter);
  wake(account);
}

/** Of the host. */
export function wakeWaiter(this: void, waiter: Waiter): void {
  const { group } = waiter as GroupWaiter;
  group.pending = group.pending - 1;
  if (group.pending > 0) return;
  remove(group);
  answer(group);
}

/** Thousands may wait at a time, so the list is not searched. */
function remove(group: Group): void {
  const { groups } = waiting;
  const { place } = group;
  // One that was answered before it waited is not listed.
  if (groups[place] !== group) return;
  const last = groups[groups.length - 1]!;
  groups[place] = last;
  last.place = place;
  (groups as (Group | undefined)[])[groups.length - 1] = undefined;
}

/** If the request is gone, it has used nothing. */
function answer({ waiter, outcomes }: Group): void {
  const words: string[] = [];
  for (const { code, source, retryAfterMs, balance } of outcomes) {
    words.push(luaString.format("%s %s %.0f %.17g", code, source, retryAfterMs, balance));
  }
  const text = luaTable.concat(words, " ");
  if (lib.tollgate_answer(state, waiter, text, text.length) === 0) giveBackPaid(running.host, outcomes);
}

function watchSoon(): void {
  if (waiting.watches) return;
  waiting.watches = true;
  after(WATCH_MS, watch);
}

function watch(this: void): void {
  waiting.watches = false;
  for (const node of worker.nodes) giveUpLate(running.sync, node);
  wakeWaiting();
  if (waiting.groups.length > 0) watchSoon();
}

/** Another version of the script replaces this one: it decides about the requests that wait. */
export function handOver(): void {
  for (const { waiter, deadline, outcomes } of waiting.groups) {
    const words = [WAIT, wholeText(waiter), wholeText(Math.floor(deadline))];
    for (const { account, cost } of outcomes) {
      words.push(account.limits.id);
      words.push(wholeText(cost));
    }
    giveBackPaid(running.host, outcomes);
    const text = luaTable.concat(words, " ");
    lib.tollgate_tell(state, text, text.length);
  }
  waiting.groups = [];
}
