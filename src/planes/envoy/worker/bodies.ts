/** Charges bodies of unknown length while they pass. The module counts them, and asks when bytes have to be paid. */
import { OK } from "../../../core/codes.js";
import { countsRequests, countsResponses, INVALID_COST, UNKNOWN_LENGTH } from "../../../core/cost.js";
import {
  dueAt,
  dueTokens,
  isMetered,
  type Metering,
  newMetering,
  nextTake,
  pauseMs,
  REFUSED,
} from "../../../engine/metering.js";
import { giveBackPaid } from "../../../engine/payments.js";
import { UPGRADE } from "../../../engine/settle.js";
import { noRoute } from "../../lua/exchange.js";
import { nowMs, running } from "../../lua/host.js";
import { type Exchange, newExchange, reuse } from "../../lua/http/exchanges.js";
import { takeMore } from "../../lua/http/limiter.js";
import { lib, state } from "../module-api.js";
import { envoy } from "../module-state.js";
import { awaitPause } from "./host.js";
import { refuse } from "./response.js";

/** Bits of the module: `enum way`. */
const REQUEST_WAY = 1;
const RESPONSE_WAY = 2;

/** By the number of the stream. Only of those that have had to pay. */
const meters: { [stream: number]: Meter | undefined } = {};

interface Meter {
  metering: Metering;
  ended: boolean;
}

/** The head of an admitted request has arrived. */
export function meterRequest(stream: number, exchange: Exchange): void {
  if (exchange.contentLength !== UNKNOWN_LENGTH) return;
  lib.tollgate_most_request_bytes(state, envoy.options.bodyBytes);
  const { account, profile } = exchange;
  if (isMetered(account.limits, profile) && countsRequests(profile)) meter(stream, exchange, REQUEST_WAY, 0);
}

/** The head of a response without a Content-Length has arrived. If its cost is known, its bytes are not charged. */
export function meterResponse(stream: number, exchange: Exchange): void {
  const { account, profile, contentLength, reportedCost } = exchange;
  if (reportedCost !== INVALID_COST || !countsResponses(profile) || !isMetered(account.limits, profile)) return;
  meter(stream, exchange, RESPONSE_WAY, countsRequests(profile) ? Math.max(contentLength, 0) : 0);
}

/** The pod has accepted an upgrade. */
export function meterUpgrade(stream: number, exchange: Exchange): void {
  const { account, profile } = exchange;
  if (!isMetered(account.limits, profile)) return;
  const request = countsRequests(profile) ? REQUEST_WAY : 0;
  meter(stream, exchange, request + (countsResponses(profile) ? RESPONSE_WAY : 0), 0);
}

const unpaid = newMetering(0);

function meter(stream: number, exchange: Exchange, ways: number, knownBytes: number): void {
  lib.tollgate_meter(state, ways, knownBytes);
  lib.tollgate_due_at(state, dueAt(meters[stream]?.metering ?? unpaid, exchange));
}

/** The metered bytes of a stream need tokens. May wait. Undefined when they are paid; otherwise a refusal, to be reused. */
export function payBytes(stream: number, exchange: Exchange): Exchange | undefined {
  const { account } = exchange;
  const own = meters[stream] ?? { metering: newMetering(0), ended: false };
  meters[stream] = own;
  const { metering } = own;
  metering.progressMs = nowMs();
  metering.bytes = lib.tollgate_metered(state);
  let due = dueTokens(metering, exchange);
  while (due > 0) {
    const more = newExchange();
    more.route = noRoute;
    takeMore(more, account, nextTake(due, account.sync.limit));
    const isPaid = more.code === OK;
    if (own.ended) {
      giveBackPaid(running.host, [more]);
      reuse(more);
      return undefined;
    }
    if (isPaid) {
      metering.taken = metering.taken + more.cost;
      metering.progressMs = nowMs();
    } else if (!waits(own, exchange, more)) return more;
    reuse(more);
    // While it has waited, more bytes may have arrived, or the stream has ended.
    metering.bytes = lib.tollgate_metered(state);
    due = own.ended || metering.bytes < 0 ? 0 : dueTokens(metering, exchange);
  }
  if (!own.ended) lib.tollgate_due_at(state, dueAt(metering, exchange));
  return undefined;
}

/** False if the stream waits no longer for refused tokens. */
function waits({ metering }: Meter, { method, account }: Exchange, refusal: Exchange): boolean {
  const { bodyPatienceMs, upgradePatienceMs } = envoy.options;
  const patienceMs = method === UPGRADE ? upgradePatienceMs : bodyPatienceMs;
  const pause = pauseMs(metering, account.limits.unknownLength, refusal, { now: nowMs(), patienceMs });
  return pause !== REFUSED && awaitPause(pause);
}

/** The stream has ended: what was taken for its bytes is part of what the exchange has paid. */
export function endMeter(stream: number, exchange: Exchange): void {
  const own = meters[stream];
  if (own === undefined) return;
  meters[stream] = undefined;
  own.ended = true;
  exchange.cost = exchange.cost + own.metering.taken;
}

/** Sends the refusal of bytes to the client, unless the response has begun. */
export function refuseBytes(refusal: Exchange): void {
  refuse(refusal);
  reuse(refusal);
}
