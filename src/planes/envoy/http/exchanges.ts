/** Open exchanges, from the decision to the response, which finds its exchange by the request id. */
import type { PlaneExchange } from "../../lua/exchange.js";
import type { Handle, Headers } from "../envoy-api.js";
import type { EnvoyAccount } from "../state.js";

export interface Exchange extends PlaneExchange {
  account: EnvoyAccount;
  /** `x-request-id`; may be the client's, so two requests may have the same. */
  requestId: string;
  arrivedAt: number;
  /** Bytes of the request body, as declared or counted so far; before the decision as `estimate` expects it. */
  requestBytes: number;
  /** The service has paid from its own lease: only it can give tokens back. */
  paidByService: boolean;
  /** The request body is still being counted. */
  receiving: boolean;
  /** Bytes of the response body; negative while unknown. */
  responseBytes: number;
  /** The stream's metadata asks the service to settle the exchange if it is aborted before it is settled here. */
  marked: boolean;
  /** Several open exchanges have the same request id: their number is in the stream's metadata. */
  shared: boolean;
}

interface Open {
  /** By request id. */
  young: { [id: string]: Exchange | undefined };
  old: { [id: string]: Exchange | undefined };
  /** Exchanges whose request id is not unique. */
  numbered: { [number: number]: Exchange | undefined };
  numbers: number;
  turnAt: number;
}

const open: Open = { young: {}, old: {}, numbered: {}, numbers: 0, turnAt: 0 };
const spare: Exchange[] = [];

/** Aborted requests get no response: their exchanges are dropped after one to two periods. */
const TURN_MS = 15 * 60 * 1000;
const NAMESPACE = "tollgate";
const NUMBER = "exchange";
/** Stands for no exchange. */
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

export function requestIdOf(headers: Headers): string {
  return headers.get(REQUEST_ID) ?? "";
}

export function remember(handle: Handle, exchange: Exchange): void {
  const { requestId: id, arrivedAt } = exchange;
  if (arrivedAt >= open.turnAt) turn(arrivedAt);
  exchange.shared = false;
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

/** For a refused request, whose response must not be mistaken for that of another one with the same id. */
export function rememberNone(handle: Handle): void {
  const id = requestIdOf(handle.headers());
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

/** Undefined if no decision was made about the request. */
export function recall(handle: Handle): Exchange | undefined {
  const headers = handle.requestHeaders();
  const id = headers === undefined ? "" : requestIdOf(headers);
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
