/** Exchanges under way in this worker: from the decision to the end of the response. Their tables are used again. */
import { ffi, type RequestPointer, toNumber } from "../ngx.js";
import { type NginxAccount, worker } from "../state.js";

export interface Exchange {
  app: NginxAccount;
  method: string;
  /** Tokens taken, or that would have been. */
  cost: number;
  code: string;
  allowed: boolean;
  source: string;
  /** Tokens on the lease just then. */
  balance: number;
  retryAfterMs: number;
  /** Bytes of the head; negative where the request has no body. */
  headBytes: number;
}

/** A count beside the list: to ask a list of Lua for its length is to search for its end. */
const spare: { list: Exchange[]; count: number } = { list: [], count: 0 };
const open: { [request: number]: Exchange | undefined } = {};

export function newExchange(): Exchange {
  if (spare.count === 0) return {} as Exchange;
  spare.count = spare.count - 1;
  return spare.list[spare.count]!;
}

export function reuse(exchange: Exchange): void {
  spare.list[spare.count] = exchange;
  spare.count = spare.count + 1;
}

/** The address of a request: no other has it as long as it lasts, not even after an internal redirect. */
export function addressOf(request: RequestPointer): number {
  return toNumber(ffi.cast("uintptr_t", request));
}

export function isOpen(request: RequestPointer): boolean {
  return open[addressOf(request)] !== undefined;
}

/** Undefined where nothing was decided. */
export function openExchange(request: RequestPointer): Exchange | undefined {
  return open[addressOf(request)];
}

export function begin(request: RequestPointer, exchange: Exchange): void {
  open[addressOf(request)] = exchange;
  worker.open = worker.open + 1;
}

/** Undefined for a request about which nothing was decided. */
export function end(request: RequestPointer): Exchange | undefined {
  const address = addressOf(request);
  const exchange = open[address];
  if (exchange === undefined) return undefined;
  open[address] = undefined;
  worker.open = worker.open - 1;
  return exchange;
}
