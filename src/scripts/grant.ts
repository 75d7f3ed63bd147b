/**
 * Records a node's counters and grants it tokens, for several apps, each from L2 and L1 together or not at all. The buckets
 * of limits (fill > 0) are L2 only.
 *
 * `need` must be met in full or nothing is taken. Beyond it the node gets up to `want`: while tokens are plentiful, at most
 * half of its share of what is left or as many as it has just spent, while they are scarce, at most what the app gains in a
 * few milliseconds. If need is
 * not met but other nodes hold tokens, these are recalled and the code is recalling; likewise at the beginning of a shortage
 * of the shard's share, which other shards may reduce. If a reply was lost, the tokens that
 * it granted count towards what the node asks for now. A repeated seq gets the same reply; an older one changes nothing.
 * After the final report the ledger entry is removed: the node would start again with counters at zero. The final
 * report may be repeated.
 */
import { borrowable, lend, lendable } from "../core/borrow.js";
import { MAX_WAIT_MS, MICRO, waitMs, wholeTokens } from "../core/bucket.js";
import {
  CLUSTER_EXHAUSTED,
  COST_EXCEEDS_CAPACITY,
  EMERGENCY_BLOCKED,
  OK,
  QUOTA_EXHAUSTED,
  RECALLING,
} from "../core/codes.js";
import { ALL_APPS } from "../core/keys.js";
import { isPayableInAdvance, ownCapacityOf, payable } from "../core/reserve.js";
import {
  APP,
  type App,
  type AppNumbers,
  COUNTERS,
  configuredCapacity,
  configuredRate,
  highestOwn,
  readApp,
  writeApp,
} from "./common/app.js";
import {
  CLUSTER,
  type Cluster,
  liveNodes,
  MAX_DURATION_MS,
  mayLend,
  readCluster,
  writeCluster,
} from "./common/cluster.js";
import { applyReport, grantTokens } from "./common/counters.js";
import {
  type Entry,
  forgetEntry,
  heldTokens,
  type NodeState,
  noteMissed,
  paidAndHeld,
  readLedger,
  writeLedger,
} from "./common/ledger.js";
import {
  type AppReport,
  isOld,
  MESSAGE_KEYS,
  type Message,
  type MessageLayout,
  markSeen,
  NODE_REPLY,
  readMessage,
  replyHead,
  replyToOld,
  SENDER,
} from "./common/message.js";
import { recallTokens } from "./common/recall.js";
import { packReply } from "./common/saved-reply.js";
import { forgetLargest, recordRefused } from "./common/share.js";
import { fields, flag, invalid, numberNames, operation, text, widthOf } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const ASK = fields("need", "want", "borrow");

/**
 * `borrow`: 0, 1, or FINAL_REPORT. In the reply, `granted` is cumulative. If the code of the reply is stale_message or
 * epoch_closed, it has no items.
 */
export const GRANT = operation({
  keys: MESSAGE_KEYS,
  moreKeys: "app",
  arguments: [CLUSTER, SENDER],
  itemArguments: [APP, COUNTERS, ASK],
  reply: NODE_REPLY,
  itemReply: fields(text("code"), "granted", "remaining", "limit", "retryAfterMs", flag("scarce")),
});

/** Instead of whether the app may borrow: the node holds nothing, asks for nothing, and will not report this app again. */
export const FINAL_REPORT = 2;

type AskName = (typeof ASK)[number];
type Request = AppReport & Record<AskName, number>;

const LAYOUT: MessageLayout<AskName> = {
  itemsAt: widthOf(GRANT.arguments),
  names: numberNames(GRANT.itemArguments),
  own: ASK,
};
/** Positions in the reply. */
const ITEMS_AT: (typeof GRANT)["reply"]["length"] = 5;
const ITEM_WIDTH: (typeof GRANT)["itemReply"]["length"] = 6;

/** Tokens are plentiful while both buckets are at least this full. */
const PLENTIFUL = 0.5;
/** While tokens are plentiful, a node gets as many as it has spent since its last message, up to this part of what is left. */
const SPENT_PART = 0.25;
/** While tokens are scarce, a node gets at most what the app gains in this time beyond what it needs. */
const SCARCE_SECONDS = 0.03;
/** A need of this fraction of L1 may have been refused before, because the share of the shard was too small. */
const LARGE_NEED = 0.05;
/** How soon a node asks again after a recall. */
const RECALL_RETRY_MS = 10;
/** Longest retry delay while other nodes hold enough tokens: they may return them long before the bucket refills. */
const HELD_RETRY_MS = 1000;
/** Retry delay in an emergency without an end. */
const EMERGENCY_RETRY_MS = 1000;

/** Instead of an amount: the reason for the refusal. */
const ABOVE_CAPACITY = -1;
const BLOCKED = -2;
const APP_SHORT = -3;
const CLUSTER_SHORT = -4;

interface Holdings extends NodeState {
  app: App;
  entry: Entry;
}

/** A call in progress. */
interface GrantCall {
  redis: RedisApi;
  keys: string[];
  message: Message<AskName>;
  state: NodeState;
  /** Live nodes. */
  live: number;
  reply: ScriptReply;
  /** The largest number in the reply. */
  largest: number;
  finalReports: number;
}

interface Ask {
  need: number;
  want: number;
  /** The most tokens that one request of the app can ever get. */
  largest: number;
  scarce: boolean;
  /** What the node has spent since its last message. */
  spent: number;
  live: number;
  appsInCall: number;
}

/** The most tokens that one request of the app can ever get. */
function largestGrant(cluster: Cluster, app: App, request: AppNumbers): number {
  const capacity = configuredCapacity(request);
  if (app.isLimit) return wholeTokens(capacity);
  const own = ownCapacityOf(configuredRate(request), cluster.wholeRate, cluster.wholeReserve);
  return wholeTokens(Math.min(capacity, cluster.largestNeed, cluster.largestNeed - cluster.wholeReserve + own));
}

/** The number of tokens to grant, or a negative reason for the refusal. Only borrowing changes the app here. */
function decide(app: App, cluster: Cluster, request: Request, ask: Ask): number {
  const { need, appsInCall } = ask;
  if (need > ask.largest) return ABOVE_CAPACITY;
  if (need * MICRO > app.capacity) return BLOCKED;
  // Negative when overdrawn: borrowing must cover that as well.
  const inApp = Math.floor(app.tokens / MICRO);
  if (need > 0 && need > inApp) {
    const short = need - inApp;
    const borrows =
      request.borrow === 1 &&
      !app.isLimit &&
      mayLend(cluster) &&
      short <= borrowable(app.debt, configuredRate(request)) &&
      need <= lendable(cluster);
    if (!borrows) return APP_SHORT;
    lend(app, short);
    return need;
  }
  if (app.isLimit) return need + prefetch(app, inApp - need, ask);
  const inCluster = payable(app, cluster);
  if (need > inCluster && !isPayableInAdvance(need, app, cluster, highestOwn(app))) return CLUSTER_SHORT;
  // The first app of a call must not prefetch what the next ones need: they share the cluster's tokens.
  const left = Math.min(inApp - need, (inCluster - need) / appsInCall);
  return need + prefetch(app, left, ask);
}

/** Tokens beyond the need, of those that are left. */
function prefetch(app: App, left: number, { need, want, spent, live, scarce }: Ask): number {
  const share = left / Math.max(live, 1);
  // A node that spends keeps doing so, however many others are registered and idle.
  const extra = scarce
    ? Math.min(share, (app.rate / MICRO) * SCARCE_SECONDS)
    : Math.max(share / 2, Math.min(spent, left * SPENT_PART));
  const most = Math.floor(extra);
  const tokens = Math.min(want - need, most);
  return Math.max(tokens, 0);
}

function isScarce(app: App, cluster: Cluster): boolean {
  if (app.tokens < app.capacity * PLENTIFUL) return true;
  return !app.isLimit && (cluster.burstsStopped || cluster.tokens < cluster.capacity * PLENTIFUL);
}

/** Tokens that other nodes hold in the bucket that is short, if they would suffice; otherwise 0. */
function heldElsewhere(verdict: number, need: number, { app, cluster, entry }: Holdings): number {
  const ofApp = app.held / MICRO - heldTokens(entry);
  if (verdict === APP_SHORT) return ofApp > 0 && Math.floor(app.tokens / MICRO) + ofApp >= need ? ofApp : 0;
  if (verdict !== CLUSTER_SHORT) return 0;
  const others = cluster.held / MICRO - Math.max(paidAndHeld(entry), 0);
  if (others <= 0) return 0;
  const { reserve, burstsStopped } = cluster;
  const own = { own: app.own + Math.max(ofApp, 0) * MICRO, ownCapacity: app.ownCapacity };
  const returned = { tokens: cluster.tokens + others * MICRO, reserve, burstsStopped };
  return need <= payable(own, returned) ? others : 0;
}

/** Only when the node holds no tokens of the app, and asks for none: held tokens must stay in the ledger. */
function isFinalReport(request: Request): boolean {
  if (request.borrow !== FINAL_REPORT || request.need + request.want > 0) return false;
  return request.granted === request.spent + request.returned;
}

function refusalCode(refusal: number): string {
  if (refusal === APP_SHORT) return QUOTA_EXHAUSTED;
  if (refusal === CLUSTER_SHORT) return CLUSTER_EXHAUSTED;
  return refusal === BLOCKED ? EMERGENCY_BLOCKED : COST_EXCEEDS_CAPACITY;
}

/** Retry delay after a refusal; 0 when waiting does not help. After an empty prefetch: until one token is available. */
function retryAfterMs(refusal: number, app: App, cluster: Cluster, need: number): number {
  if (refusal === ABOVE_CAPACITY) return 0;
  if (refusal === CLUSTER_SHORT) return clusterWaitMs(app, cluster, need);
  if (refusal === BLOCKED) return cluster.emergencyMs > 0 ? cluster.emergencyMs : EMERGENCY_RETRY_MS;
  return waitMs(app, Math.max(need, 1));
}

/** Until L1 has the need above its reserve, or the app's own rate has gained it. */
function clusterWaitMs(app: App, cluster: Cluster, need: number): number {
  const above = cluster.burstsStopped ? MAX_WAIT_MS : waitMs(cluster, need + cluster.reserve / MICRO);
  const wanted = Math.min(need * MICRO, app.ownCapacity);
  const ownMs = app.rate > 0 ? Math.ceil((Math.max(wanted - app.own, 0) / app.rate) * 1000) : MAX_WAIT_MS;
  if (need * MICRO > app.ownCapacity && !cluster.burstsStopped) return Math.max(above, 1);
  return Math.max(Math.min(above, Math.max(ownMs, waitMs(cluster, need))), 1);
}

/** One app of a message: applies its counters, grants tokens, and adds the reply. */
function grantApp(call: GrantCall, i: number): void {
  const { redis, keys, message, state, reply } = call;
  const { cluster, ledger } = state;
  const appKey = keys[MESSAGE_KEYS.length + i]!;
  const request = message.requests[i]!;
  const entry = ledger.entries[i]!;
  const app = readApp(redis, appKey, request, cluster);
  if (isFinalReport(request)) {
    call.finalReports = call.finalReports + 1;
    if (entry.granted === 0) {
      // A repeated final report whose reply was lost: it has been recorded.
      entry.granted = request.granted;
      entry.spent = request.spent;
      entry.returned = request.returned;
    }
  }
  const spent = Math.max(request.spent - entry.spent, 0);
  applyReport(state, entry, request, app);
  if (!ledger.closed) {
    const known = Math.max(request.granted - request.spent - request.returned, 0);
    const undelivered = Math.max(heldTokens(entry) - known, 0);
    const need = Math.max(request.need - undelivered, 0);
    const want = Math.max(request.want - undelivered, 0);
    const scarce = isScarce(app, cluster);
    const largest = largestGrant(cluster, app, request);
    const ask = { need, want, largest, scarce, spent, live: call.live, appsInCall: message.apps.length };
    const verdict = decide(app, cluster, request, ask);
    // L1 owes this to the app, and does not have it: together the rates of the apps are above the cluster's.
    if (verdict === CLUSTER_SHORT && need * MICRO <= app.own) cluster.ownShort = true;
    const elsewhere = verdict < 0 && heldElsewhere(verdict, need, { app, cluster, ledger, entry }) > 0;
    const recalled = elsewhere && recall(call, i, verdict === APP_SHORT ? app : undefined);
    const recalling = awaitsShare(call, verdict, need) || recalled;
    const amount = Math.max(verdict, 0);
    grantTokens(state, entry, app, amount);
    call.largest = Math.max(call.largest, entry.granted);
    const place = ITEMS_AT + i * ITEM_WIDTH;
    reply[place] = verdict >= 0 ? OK : recalling ? RECALLING : refusalCode(verdict);
    reply[place + 1] = entry.granted;
    reply[place + 2] = wholeTokens(app.tokens);
    reply[place + 3] = Math.min(wholeTokens(app.capacity), largest);
    const retryMs = verdict > 0 ? 0 : retryAfterMs(verdict, app, cluster, need);
    reply[place + 4] = recalling ? RECALL_RETRY_MS : elsewhere ? Math.min(retryMs, HELD_RETRY_MS) : retryMs;
    reply[place + 5] = scarce ? 1 : 0;
  }
  writeApp(redis, appKey, app, request);
}

/** With several shards: whether the request waits until the share of this one is increased. */
function awaitsShare({ redis, message, state }: GrantCall, verdict: number, need: number): boolean {
  const { cluster } = state;
  const { shards, now } = cluster;
  if (shards === 1) return false;
  const key = message.key.cluster;
  if (verdict === CLUSTER_SHORT) {
    return recordRefused(redis, cluster, { key, tokens: need, waitMs: waitMs(cluster, need), now });
  }
  if (verdict > 0 && need * MICRO >= cluster.largestNeed * LARGE_NEED) forgetLargest(redis, key);
  return false;
}

/** Recalls tokens of one app; without it those of all apps, because L1 is short. */
function recall({ redis, keys, message, state }: GrantCall, i: number, app: App | undefined): boolean {
  const { cluster } = state;
  return recallTokens(redis, {
    clusterKey: message.key.cluster,
    key: app === undefined ? message.key.cluster : keys[MESSAGE_KEYS.length + i]!,
    app: app === undefined ? ALL_APPS : message.apps[i]!,
    held: (app === undefined ? cluster.held : app.held) / MICRO,
    now: cluster.now,
  });
}

export function grant(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const message = readMessage(keys, argv, LAYOUT);
  if (message.fault !== "") return invalid(message.fault);
  const { key, seq, node, apps, requests } = message;
  const cluster = readCluster(redis, key.cluster, message.cluster);
  const ledger = readLedger(redis, key.ledger, apps);
  const state: NodeState = { cluster, ledger };
  if (isOld(ledger, seq)) return replyToOld(redis, message, state);

  noteMissed(ledger, seq, cluster.now);
  const code = markSeen(redis, key.nodes, node, state);
  const live = liveNodes(redis, key.nodes, cluster);
  const reply = replyHead(code, live, state);
  const call: GrantCall = { redis, keys, message, state, live, reply, largest: MAX_DURATION_MS, finalReports: 0 };
  for (let i = 0; i < apps.length; i++) grantApp(call, i);
  writeCluster(redis, key.cluster, cluster);
  ledger.seq = seq;
  writeLedger(redis, key.ledger, ledger, packReply(reply, call.largest));
  for (let i = 0; call.finalReports > 0 && i < apps.length; i++) {
    if (isFinalReport(requests[i]!) && heldTokens(ledger.entries[i]!) === 0) forgetEntry(redis, key.ledger, apps[i]!);
  }
  return reply;
}
