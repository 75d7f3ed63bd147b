/** The phases of nginx: start, access, log and exit. */
import type { NginxOptions } from "../../config/options/plane-options.js";
import { INVALID_COST, UNKNOWN_LENGTH } from "../../core/cost.js";
import { storedNumber } from "../../core/platform.js";
import { activate } from "../../engine/node.js";
import { UPGRADE } from "../../engine/settle.js";
import { running } from "../lua/host.js";
import { flushCounts } from "../lua/http/counters.js";
import { type Exchange, newExchange, reuse } from "../lua/http/exchanges.js";
import { leave } from "../lua/http/leaving.js";
import { readsFirst, settle } from "../lua/http/limiter.js";
import { decideExchange, findLimitsOf, payerOf, routeOf } from "../lua/http/requests.js";
import { beginWorker, catchUpAll, startPlane } from "../lua/http/start.js";
import { worker } from "../lua/http/state.js";
import { runSyncs } from "../lua/http/syncer.js";
import { sweepValues } from "../lua/http/value-sweep.js";
import { luaMath } from "../lua/library.js";
import { processId } from "../lua/node-name.js";
import { nowMs } from "./clock.js";
import { nginxHost } from "./host.js";
import { attributeReader, hideClaims, readBody, readHead, targetProblem } from "./http/request.js";
import { prepareHeaders, readCost, refuse, refuseHead, refuseUnidentified, showDecision } from "./http/response.js";
import { ngx, type SharedDict } from "./ngx.js";
import { readOpenFiles } from "./open-files.js";
import { readClientCertificate } from "./service-tls.js";
import { endSocket, socketAnswered } from "./sockets/end.js";
import { beginSockets, initSockets } from "./sockets/life.js";
import { placeSocket } from "./sockets/placing.js";
import { failedStatus, isSecondTry, wantedProtocols } from "./sockets/request.js";
import { sockets } from "./sockets/state.js";
import { nginx } from "./state.js";

export { deep, live, ready } from "./health.js";
export { metrics } from "./status.js";

const GENERATION = "generation";
const LEFT = "left";

/** In the master, at each start and reload. The contents of the dictionary survive a reload. */
export function init(options: NginxOptions): void {
  const dict = ngx.shared.tollgate as SharedDict;
  luaMath.randomseed(Math.floor(ngx.now() * 1000) + processId());
  nginx.options = options;
  nginx.watchedAt = 0;
  nginx.open = 0;
  readClientCertificate();
  const host = nginxHost(dict);
  running.sync = host;
  startPlane(host, options, attributeReader);
  nginx.generation = dict.incr(GENERATION, 1, 0) as number;
  dict.safe_set(LEFT, 0);
  prepareHeaders(options.headers);
  initSockets();
}

/** In each worker, also in one that replaces a dead one and has to report for it. */
export function initWorker(): void {
  luaMath.randomseed(Math.floor(ngx.now() * 1000) + ngx.worker.pid());
  beginWorker();
  readOpenFiles();
  ngx.timer.every(worker.options.lease.syncIntervalMs / 1000, onTick);
  beginSockets();
}

function onTick(premature: boolean): void {
  flushCounts();
  if (premature) {
    ngx.timer.at(0, onExit);
    return;
  }
  catchUpAll();
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
  while (nginx.open > 0) ngx.sleep(EXIT_LOOK_SECONDS);
  flushCounts();
  if (worker.dict.get(GENERATION) !== nginx.generation) return;
  if ((worker.dict.incr(LEFT, 1, 0) as number) >= ngx.worker.count()) leave();
}

/** Admitted exchanges of this worker that have not ended. */
const open: { [id: string]: Exchange | undefined } = {};

/** The id is kept in a variable of nginx because, unlike `ngx.ctx`, a variable survives internal redirects. */
function begin(exchange: Exchange): void {
  open[exchange.id] = exchange;
  nginx.open = nginx.open + 1;
  ngx.var.tollgate_exchange = exchange.id;
}

/** Undefined if no decision was made about the current request. */
function currentExchange(): Exchange | undefined {
  return open[ngx.var.tollgate_exchange ?? ""];
}

function end(exchange: Exchange): void {
  open[exchange.id] = undefined;
  nginx.open = nginx.open - 1;
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
  const problem = targetProblem();
  if (problem !== "") {
    refuseHead(problem);
    return;
  }
  const app = payerOf(claims);
  if (typeof app === "string") {
    refuseUnidentified(app);
    return;
  }
  hideClaims(app.limits.id);
  const exchange = newExchange();
  findLimitsOf(exchange, app.limits.id, claims, method);
  exchange.headBytes = contentLength === 0 ? -1 : variableNumber("request_length");
  exchange.route = routeOf(routeName);
  const reads = contentLength === UNKNOWN_LENGTH && readsFirst(app, method, exchange.route);
  decideExchange(exchange, app, method, reads ? readBody() : contentLength);
  if (exchange.allowed) {
    begin(exchange);
    showDecision(exchange);
    return;
  }
  refuse(exchange);
  reuse(exchange);
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
