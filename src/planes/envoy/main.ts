/** The two functions that Envoy calls: one decides about a request, the other adds headers to the response and settles. */
import type { EnvoyOptions, PlaneRoute } from "../../config/options/plane-options.js";
import { countsRequests, countsResponses, INVALID_COST, MAX_BYTES, reportedCost } from "../../core/cost.js";
import { newMatched } from "../../descriptors/limit-rules.js";
import { UPGRADE } from "../../engine/settle.js";
import { countDecisionTime, decisionWeight } from "../lua/decision-times.js";
import { noRoute } from "../lua/exchange.js";
import { identifiedApp, isKnownUser } from "../lua/identity.js";
import { pcall } from "../lua/library.js";
import { hasLimits, matchRequest, type Sender } from "../lua/limit-matches.js";
import { begin } from "./begin.js";
import { nowMs } from "./clock.js";
import type { Handle, Headers } from "./envoy-api.js";
import { type Exchange, newExchange, recall, remember, requestIdOf, reuse } from "./http/exchanges.js";
import { check, settle } from "./http/limiter.js";
import { answered, markCost, meterRequest, meterResponse } from "./http/metering.js";
import { addressOf, expectedLength, lengthOf, readAttributesOf, readClaims, showIdentity } from "./http/request.js";
import { refuse, refuseHead, refuseUnidentified, refuseUpgrade, showDecision } from "./http/response.js";
import { ipOf, isTrusted } from "./http/trusted-hops.js";
import { admitUpgrade, judgeUpgrade, upgradeAnswered } from "./sockets/admission.js";
import { type EnvoyAccount, worker } from "./state.js";

/** Rendered before the script, in the same file. */
declare const tollgateOptions: EnvoyOptions;
/** Envoy calls the global functions of these names. */
declare const _G: {
  envoy_on_request: (this: void, handle: Handle) => void;
  envoy_on_response: (this: void, handle: Handle) => void;
};

/** After an error Envoy would admit the request, so it is refused here. */
function onRequest(handle: Handle): void {
  const [fine, problem] = pcall(admit, handle);
  if (fine) return;
  handle.logErr(`tollgate: ${problem}`);
  refuseHead(handle, "plane_error");
}

/** After an error the response of the backend passes unchanged. */
function onResponse(handle: Handle): void {
  const [fine, problem] = pcall(answer, handle);
  if (!fine) handle.logErr(`tollgate: ${problem}`);
}

_G.envoy_on_request = onRequest;
_G.envoy_on_response = onResponse;

function admit(handle: Handle): void {
  if (!worker.begun) begin(tollgateOptions);
  const headers = handle.headers();
  const upgrade = worker.options.sockets && headers.get("upgrade") !== undefined;
  if (upgrade) {
    const refusal = judgeUpgrade(handle);
    if (refusal !== undefined) {
      refuseUpgrade(handle, refusal, undefined);
      return;
    }
  }
  const app = appOf(handle, headers);
  if (app === undefined) return;
  const method = headers.get(":method") ?? "";
  // Envoy rejects requests with an invalid or repeated length.
  const length = headers.get("content-length");
  const contentLength = length === undefined ? expectedLength(method) : lengthOf(length);
  if (contentLength > MAX_BYTES - 1) {
    refuseHead(handle, "invalid_length");
    return;
  }
  const exchange = newExchange();
  const pricedAs = upgrade ? UPGRADE : method;
  const limited = hasLimits() && findLimitsOf(exchange, app.limits.id, { handle, headers, method: pricedAs });
  // Read now: if the request waits, header objects become invalid.
  exchange.requestId = requestIdOf(headers);
  exchange.arrivedAt = nowMs();
  exchange.requestBytes = contentLength;
  exchange.receiving = false;
  exchange.responseBytes = -1;
  exchange.marked = false;
  exchange.reportedCost = INVALID_COST;
  exchange.paidByService = false;
  exchange.route = worker.options.hasRoutes ? routeOf(handle) : noRoute;
  const weight = decisionWeight();
  check(handle, exchange, app, { method: pricedAs, limited });
  if (weight > 0) countDecisionTime(exchange, weight, exchange.arrivedAt, nowMs());
  if (!exchange.allowed) {
    refuse(handle, exchange);
    return;
  }
  if (upgrade) {
    takeSlot(handle, exchange);
    return;
  }
  remember(handle, exchange);
  if (length === undefined && countsRequests(exchange.profile)) meterRequest(handle, exchange);
}

function routeOf(handle: Handle): PlaneRoute {
  const name = handle.metadata().get("route");
  return typeof name === "string" ? (worker.options.routes[name] ?? noRoute) : noRoute;
}

/** Reused for every request; `appOf` sets who sends it. */
const sender = {} as Sender;

/** Whether limits besides that of the app apply. Called before anything waits: then header objects become invalid. */
function findLimitsOf(
  exchange: Exchange,
  app: string,
  { handle, headers, method }: { handle: Handle; headers: Headers; method: string },
): boolean {
  readAttributesOf(handle, headers);
  sender.app = app;
  const matched = exchange.matched ?? newMatched();
  exchange.matched = matched;
  matchRequest(matched, sender, method);
  return matched.invalid !== "" || matched.count > 0;
}

/** The bytes of a connection are settled from the access log when it has ended. */
function takeSlot(handle: Handle, exchange: Exchange): void {
  const refusal = admitUpgrade(handle, exchange);
  if (refusal === undefined) {
    remember(handle, exchange);
    return;
  }
  exchange.responseBytes = 0;
  settle(exchange);
  refuseUpgrade(handle, refusal, exchange);
}

/** The account that pays; undefined if the request was refused. */
function appOf(handle: Handle, headers: Headers): EnvoyAccount | undefined {
  const address = addressOf(handle, headers);
  const trusted = isTrusted(address);
  sender.hopTrusted = trusted;
  if (trusted) {
    // A shortcut for `identify`: a trusted sender names a configured app and a known user. The values of a repeated header
    // are joined by a comma, which is invalid in both.
    const { appHeader, userHeader } = worker.options.identity;
    const app = worker.apps[headers.get(appHeader) ?? ""];
    const user = headers.get(userHeader);
    sender.user = user ?? "";
    if (app !== undefined && (user === undefined || isKnownUser(user))) return app;
  } else {
    // The sender is not trusted, so its forwarding headers are not either. Envoy adds X-Forwarded-Host.
    headers.replace("x-forwarded-for", ipOf(address));
    headers.remove("x-forwarded-host");
    headers.remove("forwarded");
  }
  const found = identifiedApp(worker, readClaims(headers, trusted));
  if (typeof found !== "string") {
    if (worker.options.identity.forward) showIdentity(headers, found.limits.id);
    return found;
  }
  refuseUnidentified(handle, found);
  return undefined;
}

function answer(handle: Handle): void {
  if (!worker.begun) return;
  const exchange = recall(handle);
  const headers = handle.headers();
  if (worker.options.hasRoutes) readCost(handle, headers, exchange);
  if (exchange === undefined) return;
  showDecision(headers, exchange);
  if (exchange.method === UPGRADE) {
    upgradeAnswered(handle);
    reuse(exchange);
    return;
  }
  // If bytes cost nothing, there is nothing to settle.
  const isReported = exchange.reportedCost !== INVALID_COST;
  if (isReported) markCost(handle, exchange);
  if (exchange.profile.bandwidth === 0 && !isReported) {
    reuse(exchange);
    return;
  }
  const length = headers.get("content-length");
  const status = headers.get(":status");
  const isEmpty = exchange.method === "HEAD" || status === "304" || status === "204" || status === "101";
  if (isEmpty || !countsResponses(exchange.profile)) answered(handle, exchange, 0);
  else if (length !== undefined) answered(handle, exchange, lengthOf(length));
  else if (isReported) answered(handle, exchange, 0);
  else meterResponse(handle, exchange);
}

/** Reads the cost that the backend states, and removes it from the response, also from one whose exchange was dropped. */
function readCost(handle: Handle, headers: Headers, exchange: Exchange | undefined): void {
  const route = exchange === undefined ? routeOf(handle) : exchange.route;
  const name = route.costHeader;
  if (name === undefined) return;
  const count = headers.getNumValues(name);
  if (count === 0) return;
  if (exchange !== undefined && count === 1) exchange.reportedCost = reportedCost(headers.get(name) ?? "");
  headers.remove(name);
}
