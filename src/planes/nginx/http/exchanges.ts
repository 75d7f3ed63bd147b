/** Open exchanges of this worker, from the decision to the end of the response. Their tables are reused. */
import { wholeText } from "../../../core/platform.js";
import type { PlaneExchange } from "../../lua/exchange.js";
import { ngx } from "../ngx.js";
import { type NginxAccount, worker } from "../state.js";

export interface Exchange extends PlaneExchange {
  /** Unique among the exchanges of this worker. */
  id: string;
  account: NginxAccount;
  /** Bytes of the request head; negative if the request has no body. */
  headBytes: number;
}

/** The counts are kept here because the length of a Lua list has to be searched for. */
const spare: { list: Exchange[]; count: number; created: number } = { list: [], count: 0, created: 0 };
const open: { [id: string]: Exchange | undefined } = {};

export function newExchange(): Exchange {
  if (spare.count === 0) {
    spare.created = spare.created + 1;
    return { id: wholeText(spare.created) } as Exchange;
  }
  spare.count = spare.count - 1;
  return spare.list[spare.count]!;
}

export function reuse(exchange: Exchange): void {
  spare.list[spare.count] = exchange;
  spare.count = spare.count + 1;
}

/** The id is kept in a variable of nginx because, unlike `ngx.ctx`, a variable survives internal redirects. */
export function begin(exchange: Exchange): void {
  open[exchange.id] = exchange;
  worker.open = worker.open + 1;
  ngx.var.tollgate_exchange = exchange.id;
}

/** Undefined if no decision was made about the current request. */
export function currentExchange(): Exchange | undefined {
  return open[ngx.var.tollgate_exchange ?? ""];
}

export function end(exchange: Exchange): void {
  open[exchange.id] = undefined;
  worker.open = worker.open - 1;
}
