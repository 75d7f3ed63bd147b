/** Exchanges under way in this worker: from the decision to the end of the response. Their tables are used again. */
import { ffi, type RequestPointer, toNumber } from "./ngx.js";
import { type App, worker } from "./state.js";

export interface Exchange {
  app: App;
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

const spare: Exchange[] = [];
const open: { [request: number]: Exchange | undefined } = {};

export function newExchange(): Exchange {
  const used = spare[spare.length - 1];
  if (used === undefined) return {} as Exchange;
  (spare as (Exchange | undefined)[])[spare.length - 1] = undefined;
  return used;
}

export function reuse(exchange: Exchange): void {
  spare.push(exchange);
}

/** The address of a request: no other has it as long as it lasts, not even after an internal redirect. */
function addressOf(request: RequestPointer): number {
  return toNumber(ffi.cast("uintptr_t", request));
}

export function isOpen(request: RequestPointer): boolean {
  return open[addressOf(request)] !== undefined;
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
