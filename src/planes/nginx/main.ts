/** The phases of nginx: start, access, log and exit. */
import type { NginxOptions } from "../../config/options/plane-options.js";
import { INVALID_COST, UNKNOWN_LENGTH } from "../../core/cost.js";
import type { IdentityClaims } from "../../core/identity.js";
import type { AppLimits } from "../../core/limits.js";
import { splitText, storedNumber } from "../../core/platform.js";
import { newMatched, overflowId } from "../../descriptors/limit-rules.js";
import { newEpoch } from "../../engine/epoch.js";
import { activate } from "../../engine/node.js";
import { UPGRADE } from "../../engine/settle.js";
import { countDecisionTime, decisionWeight } from "../lua/decision-times.js";
import { noRoute } from "../lua/exchange.js";
import { identifiedApp, isKnownUser } from "../lua/identity.js";
import { luaMath, luaTable } from "../lua/library.js";
import { hasLimits, limitRules, matchRequest, prepareLimits, type Sender } from "../lua/limit-matches.js";
import { hostAndProcess, processId } from "../lua/node-name.js";
import { recent } from "../lua/recent-refusals.js";
import { prepareSystemClock, systemNowMs } from "../lua/system-clock.js";
import { nowMs } from "./clock.js";
import { catchUp } from "./http/changes.js";
import { flushCounts } from "./http/counters.js";
import { begin, currentExchange, type Exchange, end, newExchange, reuse } from "./http/exchanges.js";
import { leave } from "./http/leaving.js";
import { check, checkLimits, readsFirst, settle } from "./http/limiter.js";
import { readAccount, readNode, writeNode } from "./http/records.js";
import { attributeReader, hideClaims, readBody, readHead } from "./http/request.js";
import { prepareHeaders, readCost, refuse, refuseHead, refuseUnidentified, showDecision } from "./http/response.js";
import { runSyncs } from "./http/syncer.js";
import { sweepValues } from "./http/value-sweep.js";
import { formerLimits } from "./http/values.js";
import { ngx, type SharedDict } from "./ngx.js";
import { readClientCertificate } from "./service-tls.js";
import { placeSocket } from "./sockets/admission.js";
import { endSocket, socketAnswered } from "./sockets/end.js";
import { beginSockets, initSockets } from "./sockets/life.js";
import { failedStatus, isSecondTry, wantedProtocols } from "./sockets/request.js";
import { sockets } from "./sockets/state.js";
import { type NginxAccount, newNginxAccount, newNginxNodes, worker } from "./state.js";

export { deep, live, ready } from "./health.js";
export { metrics } from "./status.js";

const NAME = "name";
const GENERATION = "generation";
const LEFT = "left";

/** In the master, at each start and reload. The contents of the dictionary survive a reload. */
export function init(options: NginxOptions): void {
  const dict = ngx.shared.tollgate as SharedDict;
  luaMath.randomseed(Math.floor(ngx.now() * 1000) + processId());
  worker.dict = dict;
  worker.options = options;
  readClientCertificate();
  worker.apps = {};
  worker.accounts = [];
  worker.nodes = newNginxNodes(options);
  worker.watchedAt = 0;
  worker.open = 0;
  recent.now = nowMs;
  prepareSystemClock();
  dict.safe_add(NAME, options.node === "" ? hostAndProcess("nginx") : options.node);
  worker.name = dict.get(NAME) as string;
  worker.byId = {};
  prepareLimits(options, attributeReader);
  for (const limits of options.apps) worker.apps[limits.id] = addApp(limits);
  // Values for which there is no room share one bucket per limit.
  for (const { name, limits } of limitRules()) addApp({ ...limits, id: overflowId(name) });
  addFormerApps();
  const epoch = newEpoch(0, nowMs(), luaMath.random());
  for (const node of worker.nodes) {
    if (!readNode(node)) {
      node.epoch = epoch;
      writeNode(node);
    }
  }
  worker.generation = dict.incr(GENERATION, 1, 0) as number;
  dict.safe_set(LEFT, 0);
  prepareHeaders(options.headers);
  initSockets();
}

function addApp(limits: AppLimits): NginxAccount {
  const account = newNginxAccount(limits, nowMs());
  worker.byId[limits.id] = account;
  worker.accounts.push(account);
  return account;
}

const APPS = "apps";

/**
 * Apps of an earlier configuration may still hold tokens. They stay in the list, because their counters must continue if
 * they are configured again in the same epoch.
 */
function addFormerApps(): void {
  const { dict } = worker;
  const listed = dict.get(APPS);
  if (listed !== undefined) {
    for (const id of splitText(listed as string, " ")) {
      if (worker.byId[id] === undefined) {
        addApp(formerLimits(id)).leaving = true;
      }
    }
  }
  const ids: string[] = [];
  for (const { limits } of worker.accounts) ids.push(limits.id);
  dict.safe_set(APPS, luaTable.concat(ids, " "));
}

/** In each worker, also in one that replaces a dead one and has to report for it. */
export function initWorker(): void {
  luaMath.randomseed(Math.floor(ngx.now() * 1000) + ngx.worker.pid());
  for (const node of worker.nodes) {
    catchUp(node);
    node.clock = nowMs();
    for (const account of node.accounts) {
      readAccount(account);
      activate(node, account);
    }
    node.failuresSeen = node.failures;
  }
  ngx.timer.every(worker.options.lease.syncIntervalMs / 1000, onTick);
  beginSockets();
}

function onTick(premature: boolean): void {
  flushCounts();
  if (premature) {
    ngx.timer.at(0, onExit);
    return;
  }
  for (const node of worker.nodes) {
    catchUp(node);
    // Another worker may be the one that plans messages.
    node.clock = nowMs();
  }
  // Workers from before a reload may still settle exchanges of former apps, but no longer report them.
  for (const account of worker.accounts) if (account.leaving) activate(account.node, account);
  sweepValues(nowMs());
  runSyncs();
}

const EXIT_LOOK_SECONDS = 0.05;

/**
 * This worker accepts no more requests. If the whole nginx exits, the last worker returns all tokens; after a reload the
 * new workers continue with them.
 */
function onExit(_premature: boolean): void {
  while (worker.open > 0) ngx.sleep(EXIT_LOOK_SECONDS);
  flushCounts();
  if (worker.dict.get(GENERATION) !== worker.generation) return;
  if ((worker.dict.incr(LEFT, 1, 0) as number) >= ngx.worker.count()) leave();
}

/** Above it a length is not exact. */
const MOST_BYTES = 9007199254740991;

/** In the access phase: decides about the current request, and answers it if it is refused. `route`: one with its own options. */
export function access(route?: string): void {
  admit(ngx.req.get_method(), route);
}

/** In the access phase of a route with connections: an upgrade also needs a slot. */
export function upgrade(name: string): void {
  const route = sockets.byName[name]!;
  const protocols = wantedProtocols(route.options);
  if (protocols === "") {
    if (isSecondTry()) ngx.exit(failedStatus());
    access(name);
    return;
  }
  admit(UPGRADE, name);
  const exchange = currentExchange();
  if (exchange !== undefined) placeSocket(exchange, route, protocols);
}

/** In the header filter of a route with connections or a cost header. */
export function answered(): void {
  const exchange = currentExchange();
  if (exchange === undefined) return;
  readCost(exchange);
  socketAnswered(exchange);
}

function admit(method: string, routeName: string | undefined): void {
  // After an internal redirect the decision about the request stands.
  if (ngx.req.is_internal() && currentExchange() !== undefined) return;
  const { claims, contentLength, tooManyHeaders } = readHead();
  if (tooManyHeaders) {
    refuseHead("headers_too_large");
    return;
  }
  if (contentLength > MOST_BYTES) {
    refuseHead("invalid_length");
    return;
  }
  const app = usualApp(claims) ?? identifiedApp(worker, claims);
  if (typeof app === "string") {
    refuseUnidentified(app);
    return;
  }
  hideClaims(app.limits.id);
  // Before anything waits: the head belongs to the current request only until then.
  const exchange = newExchange();
  const limited = hasLimits() && findLimitsOf(exchange, app.limits.id, claims, method);
  const headBytes = contentLength === 0 ? -1 : variableNumber("request_length");
  const route = routeName === undefined ? noRoute : (worker.options.routes[routeName] ?? noRoute);
  const length = contentLength === UNKNOWN_LENGTH && readsFirst(app, method, route) ? readBody() : contentLength;
  exchange.route = route;
  exchange.reportedCost = INVALID_COST;
  exchange.headBytes = headBytes;
  const weight = decisionWeight();
  const startedMs = weight > 0 ? systemNowMs() : 0;
  if (limited) checkLimits(exchange, app, method, length);
  else check(exchange, app, method, length);
  if (weight > 0) countDecisionTime(exchange, weight, startedMs, systemNowMs());
  if (exchange.allowed) {
    begin(exchange);
    showDecision(exchange);
    return;
  }
  refuse(exchange);
  reuse(exchange);
}

/** Reused for every request. */
const sender = {} as Sender;

/** Whether limits besides that of the app apply to the current request. */
function findLimitsOf(exchange: Exchange, app: string, claims: IdentityClaims, method: string): boolean {
  const { hopTrusted, userHeader, userHeaderCount } = claims;
  sender.app = app;
  sender.user = userHeaderCount === 1 ? userHeader : "";
  sender.hopTrusted = hopTrusted;
  const matched = exchange.matched ?? newMatched();
  exchange.matched = matched;
  matchRequest(matched, sender, method);
  return matched.invalid !== "" || matched.count > 0;
}

/** A shortcut for `identify`: a trusted hop names a configured app, whose id is known to be valid. */
function usualApp(claims: IdentityClaims): NginxAccount | undefined {
  if (!claims.hopTrusted || claims.appHeaderCount !== 1 || claims.userHeaderCount > 1) return undefined;
  if (claims.userHeaderCount === 1 && !isKnownUser(claims.userHeader)) return undefined;
  return worker.apps[claims.appHeader];
}

/** In the log phase: settles the actual cost of the exchange. */
export function log(): void {
  // Subrequests share the variables of their request.
  if (ngx.is_subrequest) return;
  const exchange = currentExchange();
  if (exchange === undefined) return;
  end(exchange);
  if (exchange.method === UPGRADE) {
    endSocket(exchange);
    reuse(exchange);
    return;
  }
  // If bytes cost nothing, nothing has to be settled.
  if (exchange.profile.bandwidth === 0 && exchange.reportedCost === INVALID_COST) {
    reuse(exchange);
    return;
  }
  let requestBytes = 0;
  if (exchange.headBytes >= 0) {
    requestBytes = Math.max(variableNumber("request_length") - exchange.headBytes, 0);
    // Less than declared if the upload was aborted; more than the content if it was chunked.
    requestBytes = Math.min(requestBytes, storedNumber(ngx.var.content_length ?? false, requestBytes));
  }
  settle(exchange, requestBytes, variableNumber("body_bytes_sent"));
  reuse(exchange);
}

function variableNumber(name: string): number {
  return storedNumber(ngx.var[name] ?? false, 0);
}
