/** The hooks of a request on a worker thread. */
import { INVALID_COST, MAX_BYTES } from "../../../core/cost.js";
import { UPGRADE } from "../../../engine/settle.js";
import { noRoute } from "../../lua/exchange.js";
import { catchUp } from "../../lua/http/changes.js";
import { type Exchange, newExchange, reuse } from "../../lua/http/exchanges.js";
import { settle } from "../../lua/http/limiter.js";
import { decideExchange, findLimitsOf, payerOf, routeOf } from "../../lua/http/requests.js";
import { beginWorker, startPlane } from "../../lua/http/start.js";
import { envoy } from "../module-state.js";
import { endMeter, meterRequest, meterResponse, meterUpgrade, payBytes, refuseBytes } from "./bodies.js";
import { workerHost } from "./host.js";
import { attributeReader, currentClient, currentHead, hideClaims, readHead, routeName } from "./request.js";
import {
  askToRetry,
  hasResponseLength,
  prepareResponses,
  readCost,
  refuse,
  refuseHead,
  refuseUnidentified,
  refuseUpgrade,
  showDecision,
} from "./response.js";
import {
  asksForUpgrade,
  endUpgrade,
  hasSwitched,
  placeUpgrade,
  prepareUpgrades,
  upgradeAnswered,
  upgradeProblem,
} from "./upgrade.js";

/** What the module does next. */
const CONTINUE = 0;
const REPLY = 1;

/** Admitted exchanges that have not ended, by the number of their stream. */
const open: { [stream: number]: Exchange | undefined } = {};

export function startWorker(): void {
  startPlane(workerHost, envoy.options, attributeReader);
  beginWorker();
  prepareResponses(envoy.options.headers);
  prepareUpgrades();
}

/** The head of a request has arrived. Runs in a coroutine: it may wait. */
export function onRequest(this: void, stream: number, endOfStream: boolean): number {
  const { claims, contentLength, method } = readHead(endOfStream);
  if (asksForUpgrade()) return onUpgrade(stream, method);
  if (contentLength > MAX_BYTES - 1) {
    refuseHead("invalid_length");
    return REPLY;
  }
  const app = payerOf(claims);
  if (typeof app === "string") {
    refuseUnidentified(app);
    return REPLY;
  }
  // The main thread may have received a reply since the last tick.
  catchUp(app.node);
  const exchange = newExchange();
  findLimitsOf(exchange, app.limits.id, claims, method);
  exchange.route = envoy.options.hasRoutes ? routeOf(routeName()) : noRoute;
  hideClaims(app.limits.id);
  decideExchange(exchange, app, method, contentLength);
  exchange.contentLength = contentLength;
  if (exchange.allowed) {
    open[stream] = exchange;
    meterRequest(stream, exchange);
    return CONTINUE;
  }
  refuse(exchange);
  reuse(exchange);
  return REPLY;
}

function onUpgrade(stream: number, method: string): number {
  const { claims } = currentHead();
  const route = routeName();
  const problem = upgradeProblem(route, method);
  if (problem !== "") {
    refuseHead(problem);
    return REPLY;
  }
  const app = payerOf(claims);
  if (typeof app === "string") {
    refuseUnidentified(app);
    return REPLY;
  }
  const exchange = newExchange();
  findLimitsOf(exchange, app.limits.id, claims, UPGRADE);
  exchange.route = routeOf(route);
  const client = currentClient();
  hideClaims(app.limits.id);
  exchange.contentLength = 0;
  decideExchange(exchange, app, UPGRADE, 0);
  if (!exchange.allowed) {
    refuse(exchange);
    reuse(exchange);
    return REPLY;
  }
  // It is settled even if the stream ends while it waits for a slot.
  open[stream] = exchange;
  const refusal = placeUpgrade(stream, exchange, route!, client);
  if (refusal === undefined) return CONTINUE;
  refuseUpgrade(exchange, refusal);
  onEnd(stream, 0, 0);
  return REPLY;
}

/** The head of the response to an admitted request. `local`: it is Envoy's own, as a number. */
export function onResponse(this: void, stream: number, local: number): void {
  const exchange = open[stream];
  if (exchange === undefined) return;
  readCost(exchange);
  showDecision(exchange);
  if (exchange.method === UPGRADE) {
    if (upgradeAnswered(stream, local !== 0)) askToRetry();
    if (hasSwitched(stream)) meterUpgrade(stream, exchange);
  } else if (!hasResponseLength()) meterResponse(stream, exchange);
}

/** Bytes of an admitted request need tokens; or its body, whose length was not declared, is too large. May wait. */
export function onBytes(this: void, stream: number, tooMany: boolean): number {
  const exchange = open[stream];
  if (exchange === undefined) return CONTINUE;
  if (tooMany) {
    refuseHead("body_too_large");
    return REPLY;
  }
  const refusal = payBytes(stream, exchange);
  if (refusal === undefined) return CONTINUE;
  refuseBytes(refusal);
  return REPLY;
}

/** An admitted request has ended, in whatever way. */
export function onEnd(this: void, stream: number, requestBytes: number, responseBytes: number): void {
  const exchange = open[stream];
  if (exchange === undefined) return;
  open[stream] = undefined;
  endMeter(stream, exchange);
  if (exchange.method === UPGRADE) {
    endUpgrade(stream, exchange, requestBytes, responseBytes);
    reuse(exchange);
    return;
  }
  // If bytes cost nothing, nothing has to be settled.
  if (exchange.profile.bandwidth !== 0 || exchange.reportedCost !== INVALID_COST) {
    settle(exchange, requestBytes, responseBytes);
  }
  reuse(exchange);
}
