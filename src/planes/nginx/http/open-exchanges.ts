/** Admitted exchanges of this worker that have not ended. */
import type { Exchange } from "../../lua/http/exchanges.js";
import { ngx } from "../ngx.js";
import { nginx } from "../state.js";

const open: { [id: string]: Exchange | undefined } = {};

/** The id is kept in a variable of nginx because, unlike `ngx.ctx`, a variable survives internal redirects. */
export function begin(exchange: Exchange): void {
  open[exchange.id] = exchange;
  nginx.open = nginx.open + 1;
  ngx.var.tollgate_exchange = exchange.id;
}

/** Undefined if no decision was made about the current request. */
export function currentExchange(): Exchange | undefined {
  return open[ngx.var.tollgate_exchange ?? ""];
}

export function end(exchange: Exchange): void {
  open[exchange.id] = undefined;
  nginx.open = nginx.open - 1;
}
