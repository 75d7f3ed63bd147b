/** Why an app's request was refused, and what stands in its way now: sentences that a person can act on. */

import * as codes from "../../core/codes.js";
import { emergencyRatio } from "../../core/emergency.js";
import type { AppLimits, OnStoreFailure } from "../../core/limits.js";
import type { Refusal } from "../control/contract/contract.js";
import type { RefusalReport } from "../metrics/reports.js";
import { about, amount, incoming, rate, tokens } from "./words.js";

/** What the configuration says beyond the app. */
export interface Surroundings {
  cluster: { capacity: number; rate: number };
  failOpenTokens: number;
}

export type ExplainedApp = Pick<AppLimits, "id" | "guaranteed" | "burst" | "priority" | "onStoreFailure" | "dryRun">;

const layers: Record<string, Refusal["layer"]> = {
  [codes.QUOTA_EXHAUSTED]: "L2",
  [codes.COST_EXCEEDS_CAPACITY]: "L2",
  [codes.CLUSTER_EXHAUSTED]: "L1",
  [codes.EMERGENCY_BLOCKED]: "emergency",
  [codes.STORE_UNAVAILABLE]: "store",
  [codes.UNKNOWN_APP]: "identity",
  [codes.INVALID_IDENTITY]: "identity",
};

/** Where a refusal with this code is decided. What never got as far as a bucket ends at the lease. */
export function layerOf(code: string): Refusal["layer"] {
  return layers[code] ?? "L3";
}

export function explainRefusal(refusal: RefusalReport, app: ExplainedApp, around: Surroundings): string {
  const sentence = refusalSentence(refusal, app, around);
  return refusal.dryRun ? `${sentence} It passed all the same: ${app.id} is on a dry run.` : sentence;
}

function refusalSentence(refusal: RefusalReport, app: ExplainedApp, around: Surroundings): string {
  const { code, cost, remaining, limit, retryAfterMs } = refusal;
  const { id, priority } = app;
  switch (code) {
    case codes.QUOTA_EXHAUSTED:
      return (
        `${id} has used its burst of ${amount(limit)}: ${left(remaining)} left in its bucket, the request needed ` +
        `${amount(cost)}; ${incoming(app.guaranteed)}${soWait(retryAfterMs)}.`
      );
    case codes.CLUSTER_EXHAUSTED:
      return (
        `The bucket that all apps of the cluster share has too little: the request of ${id} needed ${tokens(cost)}; ` +
        `${incoming(around.cluster.rate)} for all of them${soWait(retryAfterMs)}.`
      );
    case codes.COST_EXCEEDS_CAPACITY:
      return tooLarge(cost, app, around);
    case codes.EMERGENCY_BLOCKED:
      return (
        `The cluster is in an emergency, in which apps of priority ${priority} ${kept(priority)}: ${id} has a burst of ` +
        `${amount(limit)} while it lasts, and the request needed ${amount(cost)}${soWait(retryAfterMs)}.`
      );
    case codes.STORE_UNAVAILABLE:
      return `The store did not answer, and ${without(app, around)}; the request of ${id} needed ${tokens(cost)}.`;
    case codes.INVALID_ARGUMENT:
      return `The request of ${id} stated a size that is none, so it has no price: see its Content-Length.`;
    case codes.UNKNOWN_APP:
      return "The app is not configured, and unknown apps are refused: add it to apps, or set unknown_apps to default.";
    case codes.INVALID_IDENTITY:
      return "The request did not say properly which app it is: its identity is malformed or was given twice.";
    default:
      return `The request of ${id} was refused: ${meaning(code)}`;
  }
}

function tooLarge(cost: number, { id, burst }: ExplainedApp, { cluster }: Surroundings): string {
  const request = `A request of ${tokens(cost)} can never pass`;
  if (cost > burst) {
    return `${request}: the bucket of ${id} holds ${amount(burst)} at most. Raise apps.${id}.burst, or send less at once.`;
  }
  return (
    `${request}: the bucket that all apps share holds ${amount(cluster.capacity)} at most. ` +
    "Raise cluster.capacity, or send less at once."
  );
}

function left(remaining: number): string {
  const whole = Math.max(Math.floor(remaining), 0);
  return whole === 1 ? "1 token is" : `${amount(whole)} tokens are`;
}

const soWait = (ms: number) => (ms > 0 ? `, so wait ${about(ms)}` : "");

function kept(priority: number): string {
  const ratio = emergencyRatio(priority);
  if (ratio === 1) return "keep all of their quota";
  if (ratio === 0) return "get nothing";
  return `keep ${Math.round(ratio * 100)} % of their quota`;
}

/** What an app may do while the store is gone. */
function without({ id, onStoreFailure, guaranteed }: ExplainedApp, { failOpenTokens }: Surroundings): string {
  const words: Record<OnStoreFailure, string> = {
    closed: `${id} may do nothing without it (on_store_failure: closed)`,
    local: `${id} has used its node's share of ${rate(guaranteed)} tokens per second (on_store_failure: local)`,
    open: `${id} has used the ${tokens(failOpenTokens)} per second and node that it may spend without it (on_store_failure: open)`,
  };
  return words[onStoreFailure];
}

/** Codes that are not the answer to a request of a client, in a few words. */
const meanings: Record<string, string> = {
  [codes.OK]: "it was not refused at all.",
  [codes.BORROW_LIMIT_EXCEEDED]: "the app already owes as much as it may borrow.",
  [codes.BORROWING_DISABLED]: "the app may not borrow.",
  [codes.BUCKET_FULL]: "the app's bucket has no room for borrowed tokens.",
  [codes.STALE_MESSAGE]: "its message to the store was overtaken by a later one.",
  [codes.EPOCH_CLOSED]: "the node was silent for so long that its tokens went back; it begins anew.",
  [codes.HELD]: "another node does this just now.",
  [codes.SLOT_SUCCESS]: "it was not refused at all.",
  [codes.SLOT_ALREADY_HELD]: "the connection holds its slot already.",
  [codes.SLOT_LIMIT_EXCEEDED]: "every pod that it could go to has as many connections as it may have.",
  [codes.SLOT_TOTAL_LIMIT_EXCEEDED]: "all pods together have as many connections as they may have.",
  [codes.SLOT_APP_LIMIT_EXCEEDED]: "the app has as many connections as it may have.",
  [codes.SLOT_RATE_LIMITED]: "new connections come faster than they may.",
  [codes.SLOT_RELEASED]: "the connection had ended before its slot was taken.",
  [codes.SLOT_FORGOTTEN]: "the store had lost its memory, and those who live are counted first.",
  [codes.SLOT_INVALID_ARGUMENT]: "a value was missing, or was no number, negative or too large.",
};

function meaning(code: string): string {
  return meanings[code] ?? `its code is ${code}.`;
}

export interface BorrowAnswer {
  code: string;
  borrowed: number;
  debt: number;
  remaining: number;
  borrowable: number;
}

export function explainBorrow(answer: BorrowAnswer, amountAsked: number, app: ExplainedApp): string {
  const { code, borrowed, debt, remaining, borrowable } = answer;
  const { id, burst } = app;
  switch (code) {
    case codes.OK:
      return `${id} has borrowed ${tokens(borrowed)} and owes ${amount(debt)}; the refill beyond its guaranteed reserve pays that back.`;
    case codes.BORROWING_DISABLED:
      return `${id} may not borrow: set apps.${id}.borrow to true.`;
    case codes.BORROW_LIMIT_EXCEEDED:
      return `${id} may borrow ${tokens(borrowable)} more and not ${amount(amountAsked)}: it owes ${amount(debt)}, and at most half of what a second brings can be borrowed.`;
    case codes.BUCKET_FULL:
      return `${id} is not out: its bucket of ${amount(burst)} has ${amount(remaining)} in it and no room for ${amount(amountAsked)} more.`;
    case codes.CLUSTER_EXHAUSTED:
      return `The cluster has not ${tokens(amountAsked)} to lend: it keeps a fifth of its bucket.`;
    case codes.EMERGENCY_BLOCKED:
      return "Nothing is lent while the cluster is in an emergency.";
    default:
      return `Nothing was lent to ${id}: ${meaning(code)}`;
  }
}

export interface AppNow {
  /** Undefined where the store does not answer. */
  balances: { tokens: number; debt: number; clusterTokens: number } | undefined;
  emergency: { active: boolean; leftMs: number };
  level: number;
  /** The newest refusal here and how long ago it was. */
  last: { refusal: RefusalReport; agoMs: number } | undefined;
}

const RECENT_MS = 60_000;
/** Refused so lately, an app is at its limit, whatever trickled in since. */
const JUST_NOW_MS = 2_000;

/** What stands in the way of the app's requests just now; the first thing that does. */
export function explainApp(app: ExplainedApp, now: AppNow, around: Surroundings): string {
  const sentences = [obstacle(app, now, around)];
  if (now.balances !== undefined && now.balances.debt >= 1) {
    sentences.push(`It owes ${tokens(now.balances.debt)}, which its refill pays back first.`);
  }
  if (now.level >= 2) {
    sentences.push(
      `The degradation level is ${now.level}: what the lease of a node cannot pay does not wait for the store.`,
    );
  }
  if (app.dryRun) sentences.push(`${app.id} is on a dry run: nothing of it is refused.`);
  return sentences.join(" ");
}

function obstacle(app: ExplainedApp, { balances, emergency, last }: AppNow, around: Surroundings): string {
  const { id, burst, guaranteed, priority } = app;
  if (balances === undefined) {
    return `The store does not answer, so nobody knows what ${id} has left; once ${without(app, around)}, requests get 503.`;
  }
  const ratio = emergency.active ? emergencyRatio(priority) : 1;
  const end =
    emergency.leftMs > 0 ? `it ends by itself in ${about(emergency.leftMs)}` : "it lasts until it is turned off";
  if (ratio === 0) {
    return `The cluster is in an emergency, in which apps of priority ${priority} get nothing; ${end}.`;
  }
  const short = shortage(app, balances, around);
  if (ratio < 1) {
    const scaled = `${id} has a burst of ${amount(burst * ratio)} and ${rate(guaranteed * ratio)} tokens per second`;
    const sentence = `The cluster is in an emergency, in which apps of priority ${priority} ${kept(priority)}: ${scaled}; ${end}.`;
    return short === undefined ? sentence : `${sentence} ${short}`;
  }
  if (short !== undefined) return short;
  const there = `${amount(balances.tokens)} of ${amount(burst)} tokens are there, and ${incoming(guaranteed)}`;
  if (last === undefined || last.agoMs > RECENT_MS) return `Nothing stands in the way: ${there}.`;
  const atItsLimit = last.agoMs <= JUST_NOW_MS && last.refusal.code === codes.QUOTA_EXHAUSTED;
  const state = atItsLimit
    ? `${id} asks for more than it gets, and what is beyond that is refused: ${there}.`
    : `Nothing stands in the way: ${there}.`;
  return `${state} The last refusal was ${ago(last.agoMs)}: ${refusalSentence(last.refusal, app, around)}`;
}

function shortage(
  app: ExplainedApp,
  balances: NonNullable<AppNow["balances"]>,
  around: Surroundings,
): string | undefined {
  const { id, burst, guaranteed } = app;
  if (balances.tokens < 1) {
    const waitMs = ((1 - balances.tokens) / Math.max(guaranteed, 1e-6)) * 1000;
    const level = balances.tokens <= -1 ? `overdrawn by ${tokens(-balances.tokens)}` : "empty";
    return `${id} has used its burst of ${amount(burst)}: its bucket is ${level}, and ${incoming(guaranteed)}; the next one is there in ${about(waitMs)}.`;
  }
  if (balances.clusterTokens < 1) {
    return `The bucket that all apps of the cluster share is empty; ${incoming(around.cluster.rate)} for all of them.`;
  }
  return undefined;
}

function ago(ms: number): string {
  return ms < 1_000 ? "a moment ago" : `${about(ms).replace("about ", "")} ago`;
}
