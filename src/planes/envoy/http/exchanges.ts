/** Exchanges under way: from the decision to the response, which finds its own by the request's id. */
import type { Outcome } from "../../../engine/account.js";
import type { Handle, Headers } from "../envoy-api.js";
import type { EnvoyAccount } from "../state.js";

export interface Exchange extends Outcome {
  account: EnvoyAccount;
  /** Bytes of the request's body, as declared or as counted so far. */
  requestBytes: number;
  /** They are still being counted. */
  receiving: boolean;
  /** Of the response; negative while they are not known. */
  responseBytes: number;
  /** Its stream says that the service is to settle it, should it break off before that is done here. */
  marked: boolean;
  /** More than one open exchange has the id: this one's metadata tells its number. */
  shared: boolean;
}

interface Open {
  /** By the id of the request. */
  young: { [id: string]: Exchange | undefined };
  old: { [id: string]: Exchange | undefined };
  /** Of those whose id is no one's alone. */
  numbered: { [number: number]: Exchange | undefined };
  numbers: number;
  turnAt: number;
}

const open: Open = { young: {}, old: {}, numbered: {}, numbers: 0, turnAt: 0 };
const spare: Exchange[] = [];

/** A request that was broken off never gets a response: whoever has waited this long is let go. */
const TURN_MS = 15 * 60 * 1000;
const NAMESPACE = "tollgate";
const NUMBER = "exchange";
/** The number of no exchange. */
const NONE = 0;
const REQUEST_ID = "x-request-id";

export function newExchange(): Exchange {
  const used = spare[spare.length - 1];
  if (used === undefined) return {} as Exchange;
  (spare as (Exchange | undefined)[])[spare.length - 1] = undefined;
  return used;
}

export function reuse(exchange: Exchange): void {
  spare.push(exchange);
}

/** `x-request-id` is Envoy's own, or the client's: then two requests may have the same. */
export function remember(handle: Handle, headers: Headers, exchange: Exchange, now: number): void {
  if (now >= open.turnAt) turn(now);
  exchange.shared = false;
  const id = headers.get(REQUEST_ID) ?? "";
  const other = open.young[id] ?? open.old[id];
  if (other === undefined && id !== "") {
    open.young[id] = exchange;
    return;
  }
  if (other !== undefined) other.shared = true;
  open.numbers = open.numbers + 1;
  open.numbered[open.numbers] = exchange;
  handle.streamInfo().dynamicMetadata().set(NAMESPACE, NUMBER, open.numbers);
}

/** Of a request that is refused: its response must not be taken for that of another with the same id. */
export function rememberNone(handle: Handle): void {
  const id = handle.headers().get(REQUEST_ID) ?? "";
  const other = open.young[id] ?? open.old[id];
  if (other === undefined) return;
  other.shared = true;
  handle.streamInfo().dynamicMetadata().set(NAMESPACE, NUMBER, NONE);
}

function turn(now: number): void {
  open.old = open.young;
  open.young = {};
  open.turnAt = now + TURN_MS;
}

/** Undefined for a response to a request about which nothing was decided. */
export function recall(handle: Handle): Exchange | undefined {
  const headers = handle.requestHeaders();
  const id = headers === undefined ? "" : (headers.get(REQUEST_ID) ?? "");
  const exchange = open.young[id] ?? open.old[id];
  if (exchange === undefined || exchange.shared) {
    const number = handle.streamInfo().dynamicMetadata().get(NAMESPACE)?.[NUMBER] as number | undefined;
    if (number !== undefined) {
      const numbered = open.numbered[number];
      open.numbered[number] = undefined;
      return numbered;
    }
  }
  open.young[id] = undefined;
  open.old[id] = undefined;
  return exchange;
}
