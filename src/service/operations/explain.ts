/** Explains in plain sentences why a request was refused and what currently limits an app. */

import type { AppLimits, OnStoreFailure } from "../../core/app-limits.js";
import { borrowable, lendable } from "../../core/borrow.js";
import { MICRO } from "../../core/bucket.js";
import * as codes from "../../core/codes.js";
import { emergencyRatio } from "../../core/emergency.js";
import { ownCapacityOf, reserveOf } from "../../core/reserve.js";
import type { Quota } from "../../quota/quota.js";
import type { RefusalReport } from "../metrics/app-counters.js";

/** Limits beyond the app's own. */
export interface ClusterLimits {
  capacity: number;
  rate: number;
  /** Of apps without their own. */
  failOpenTokens: number | undefined;
}

export type ExplainedApp = Pick<
  AppLimits,
  "id" | "guaranteed" | "burst" | "priority" | "borrow" | "onStoreFailure" | "failOpenTokens" | "dryRun"
>;

export function explainRefusal(refusal: RefusalReport, app: ExplainedApp, cluster: ClusterLimits): string {
  const sentence = refusalSentence(refusal, app, cluster);
  if (!refusal.dryRun) return sentence;
  const lifted = refusal.limitName === undefined ? app.id : `the limit ${refusal.limitName}`;
  return `${sentence} The request was admitted because ${lifted} is on a dry run.`;
}

function refusalSentence(refusal: RefusalReport, app: ExplainedApp, cluster: ClusterLimits): string {
  const { code, cost, remaining, limit, retryAfterMs, limitName } = refusal;
  const { id, priority } = app;
  if (limitName !== undefined) return limitRefused(limitName, refusal, app);
  switch (code) {
    case codes.QUOTA_EXHAUSTED:
      return (
        `${id} has used its burst of ${tokens(limit)}: its bucket has ${tokens(remaining)}, the request cost ` +
        `${amount(cost)}. The bucket refills at ${rate(app.guaranteed)}${retryIn(retryAfterMs)}.`
      );
    case codes.CLUSTER_EXHAUSTED:
      return (
        `The bucket of the cluster has too few tokens above its reserve: the request of ${id} cost ${tokens(cost)}. ` +
        `The bucket refills at ${rate(cluster.rate)} for all apps${retryIn(retryAfterMs)}.`
      );
    case codes.COST_EXCEEDS_CAPACITY:
      return tooExpensive(cost, app, cluster);
    case codes.EMERGENCY_BLOCKED:
      return (
        `The cluster is in an emergency: apps of priority ${priority} ${kept(priority)}. The burst of ${id} is ` +
        `${tokens(limit)}, the request cost ${amount(cost)}${retryIn(retryAfterMs)}.`
      );
    case codes.STORE_UNAVAILABLE:
      return `The store is unavailable, and ${withoutStore(app, cluster)}. The request of ${id} cost ${tokens(cost)}.`;
    case codes.INVALID_ARGUMENT:
      return `The request of ${id} has an invalid Content-Length, so its cost cannot be computed.`;
    case codes.UNKNOWN_APP:
      return "The app is not configured, and unknown apps are refused. Add it to apps, or set unknown_apps to default.";
    case codes.INVALID_IDENTITY:
      return "The request has no valid identity: the app or user header is malformed or was sent twice.";
    default:
      return `The request of ${id} ${refusal.dryRun ? "would be" : "was"} refused: its code is ${code}.`;
  }
}

/** A limit of `limits`, not the app's own. */
function limitRefused(name: string, refusal: RefusalReport, { id }: ExplainedApp): string {
  const { code, cost, remaining, limit, retryAfterMs, dryRun } = refusal;
  const subject = `A request of ${id} ${dryRun ? "would be" : "was"} refused by the limit ${name}`;
  const values = `tollgate usage ${name} shows its values`;
  if (code === codes.QUOTA_EXHAUSTED)
    return (
      `${subject}: the bucket of its value has ${amount(remaining)} of ` +
      `${tokens(limit)}, the request cost ${amount(cost)}${retryIn(retryAfterMs)}; ${values}.`
    );
  return `${subject}: its code is ${code}; ${values}.`;
}

function tooExpensive(
  cost: number,
  { id, burst, guaranteed }: ExplainedApp,
  { capacity, rate }: ClusterLimits,
): string {
  const request = `A request that costs ${tokens(cost)} can never be admitted`;
  if (cost > burst) {
    return `${request}: the bucket of ${id} holds at most ${amount(burst)}. Raise apps.${id}.burst, or send smaller requests.`;
  }
  const reserve = reserveOf(capacity * MICRO, rate * MICRO);
  const own = ownCapacityOf(guaranteed * MICRO, rate * MICRO, reserve);
  const most = Math.floor((capacity * MICRO - reserve + own) / MICRO);
  return (
    `${request}: the cluster pays at most ${amount(most)} for a request of ${id}, and keeps the rest of its bucket for the own ` +
    "rates of other apps. Raise cluster.capacity, or send smaller requests."
  );
}

const retryIn = (ms: number) => (ms > 0 ? `; retry in ${duration(ms)}` : "");

function kept(priority: number): string {
  const share = emergencyRatio(priority);
  if (share === 1) return "keep their whole quota";
  if (share === 0) return "are blocked";
  return `keep ${Math.round(share * 100)} % of their quota`;
}

/** What limits an app while the store is unavailable. */
function withoutStore(app: ExplainedApp, cluster: ClusterLimits): string {
  const { id, onStoreFailure, burst, guaranteed, failOpenTokens: cap = cluster.failOpenTokens } = app;
  const own = `burst of ${tokens(burst)} and the ${rate(guaranteed)}`;
  const allowed = cap === undefined ? `its ${own}` : `the ${tokens(cap)} per second`;
  const sentences: Record<OnStoreFailure, string> = {
    closed: `${id} is blocked without it (on_store_failure: closed)`,
    local: `${id} has used this node's share of its ${own} (on_store_failure: local)`,
    open: `${id} has used ${allowed} that it may spend on one node without it (on_store_failure: open)`,
  };
  return sentences[onStoreFailure];
}

export function explainBorrow(
  loan: Awaited<ReturnType<Quota["borrow"]>>,
  requested: number,
  { id, burst }: ExplainedApp,
): string {
  const { code, borrowed, debt, remaining, borrowable } = loan;
  switch (code) {
    case codes.OK:
      return `${id} has borrowed ${tokens(borrowed)} and owes ${amount(debt)}. Its refill beyond the guaranteed reserve repays the debt.`;
    case codes.BORROWING_DISABLED:
      return `${id} may not borrow: set apps.${id}.borrow to true.`;
    case codes.BORROW_LIMIT_EXCEEDED:
      return `${id} may borrow ${tokens(borrowable)} more, not ${amount(requested)}: it owes ${amount(debt)}, and may borrow at most half of its guaranteed rate per second.`;
    case codes.BUCKET_FULL:
      return `${id} does not need to borrow: its bucket of ${amount(burst)} has ${tokens(remaining)} and no room for ${amount(requested)} more.`;
    case codes.CLUSTER_EXHAUSTED:
      return `The cluster cannot lend ${tokens(requested)}: it keeps a fifth of its bucket.`;
    case codes.EMERGENCY_BLOCKED:
      return "The cluster does not lend tokens during an emergency.";
    default:
      return `${id} could not borrow: its code is ${code}.`;
  }
}

type Balances = Pick<
  Awaited<ReturnType<Quota["inspect"]>>,
  "tokens" | "debt" | "clusterTokens" | "granted" | "spent" | "returned"
>;

export interface AppNow {
  /** Undefined if the store does not answer. */
  balances: Balances | undefined;
  emergency: { active: boolean; leftMs: number; burstsStopped: boolean };
  level: number;
  /** The last refusal in this service. */
  last: { refusal: RefusalReport; agoMs: number } | undefined;
}

const RECENT_MS = 60_000;
/** An app that was refused this recently is at its limit, even if its bucket has a few tokens now. */
const JUST_NOW_MS = 2_000;

/** What currently limits the requests of an app, the most important first. */
export function explainApp(app: ExplainedApp, now: AppNow, cluster: ClusterLimits): string {
  const sentences = [limitedBy(app, now, cluster)];
  if (now.balances !== undefined && now.balances.debt >= 1) {
    sentences.push(`It owes ${tokens(now.balances.debt)}, which its refill repays first.`);
  }
  const loan = possibleLoan(app, now, cluster);
  if (loan >= 1) sentences.push(`An operator can lend it up to ${tokens(loan)}: tollgate borrow ${app.id} ${loan}.`);
  if (now.level >= 2) {
    sentences.push(
      `The degradation level is ${now.level}: requests that the lease of a node cannot pay do not wait for the store.`,
    );
  }
  if (app.dryRun) {
    sentences.push(
      `${app.id} is on a dry run: its own limit refuses nothing. Other limits that are not on a dry run still refuse its requests, and so do checks of invalid ones.`,
    );
  }
  return sentences.join(" ");
}

function limitedBy(app: ExplainedApp, { balances, emergency, last }: AppNow, cluster: ClusterLimits): string {
  const { id, burst, guaranteed, priority } = app;
  if (balances === undefined) {
    return `The store does not answer, so the balance of ${id} is unknown. Requests get 503 once ${withoutStore(app, cluster)}.`;
  }
  const share = emergency.active ? emergencyRatio(priority) : 1;
  const end = emergency.leftMs > 0 ? `it ends in ${duration(emergency.leftMs)}` : "it has no fixed end";
  if (share === 0) {
    return `The cluster is in an emergency: apps of priority ${priority} are blocked; ${end}.`;
  }
  const short = shortage(app, balances, cluster);
  if (share < 1) {
    const reduced = `the burst of ${id} is ${tokens(burst * share)}, its rate ${rate(guaranteed * share)}`;
    const sentence = `The cluster is in an emergency: apps of priority ${priority} ${kept(priority)}; ${reduced}; ${end}.`;
    return short === undefined ? sentence : `${sentence} ${short}`;
  }
  if (short !== undefined) return short;
  const bucket = `its bucket has ${amount(balances.tokens)} of ${tokens(burst)} and refills at ${rate(guaranteed)}`;
  if (last === undefined || last.agoMs > RECENT_MS) return `Nothing limits ${id}: ${bucket}.`;
  const { code, limitName, dryRun } = last.refusal;
  const unlimited =
    limitName === undefined ? `Nothing limits ${id}: ${bucket}.` : `${id} is within its own limit: ${bucket}.`;
  const atLimit = last.agoMs <= JUST_NOW_MS && code === codes.QUOTA_EXHAUSTED && limitName === undefined;
  const excess = dryRun ? "would be refused without the dry run" : "is refused";
  const state = atLimit ? `${id} requests more than its rate, and the excess ${excess}: ${bucket}.` : unlimited;
  const event = dryRun ? "The last request that would be refused was" : "The last refusal was";
  return `${state} ${event} ${ago(last.agoMs)}: ${refusalSentence(last.refusal, app, cluster)}`;
}

/** Whole tokens that `tollgate borrow` would lend to an app whose bucket is empty; 0 otherwise. */
function possibleLoan(app: ExplainedApp, { balances, emergency }: AppNow, { capacity, rate }: ClusterLimits): number {
  if (!app.borrow || emergency.active || emergency.burstsStopped || balances === undefined || balances.tokens >= 1)
    return 0;
  const held = Math.max(balances.granted - balances.spent - balances.returned, 0);
  return Math.min(
    borrowable(balances.debt * MICRO, Math.floor(app.guaranteed * MICRO)),
    Math.floor(app.burst - held - balances.tokens),
    // With several shards the floor applies to the whole cluster, so some loans that would succeed are not suggested.
    lendable({
      ...{ tokens: balances.clusterTokens * MICRO, debt: 0, capacity: capacity * MICRO, held: 0, rate: rate * MICRO },
      reserve: reserveOf(capacity * MICRO, rate * MICRO),
    }),
  );
}

function shortage(
  { id, burst, guaranteed }: ExplainedApp,
  balances: Balances,
  cluster: ClusterLimits,
): string | undefined {
  if (balances.tokens < 1) {
    const waitMs = ((1 - balances.tokens) / Math.max(guaranteed, 1e-6)) * 1000;
    const level = balances.tokens <= -1 ? `overdrawn by ${tokens(-balances.tokens)}` : "empty";
    return `${id} has used its burst of ${tokens(burst)}: its bucket is ${level} and refills at ${rate(guaranteed)}; the next token arrives in ${duration(waitMs)}.`;
  }
  if (balances.clusterTokens < 1) {
    return `The bucket of the cluster is empty; it refills at ${rate(cluster.rate)} for all apps.`;
  }
  return undefined;
}

/** Whole tokens with thousands separators, rounded down. */
function amount(count: number): string {
  return Math.floor(count).toLocaleString("en-US");
}

function tokens(count: number): string {
  const whole = Math.max(Math.floor(count), 0);
  return whole === 1 ? "1 token" : `${amount(whole)} tokens`;
}

function rate(tokensPerSecond: number): string {
  const text = tokensPerSecond.toLocaleString("en-US", { maximumFractionDigits: 6 });
  return `${text} ${tokensPerSecond === 1 ? "token" : "tokens"} per second`;
}

function duration(ms: number): string {
  if (ms < 1_000) return "less than a second";
  const seconds = Math.round(ms / 1_000);
  if (seconds < 120) return `about ${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `about ${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `about ${hours} h` : `about ${Math.round(hours / 24)} days`;
}

function ago(ms: number): string {
  return ms < 1_000 ? "less than a second ago" : `${duration(ms).replace("about ", "")} ago`;
}
