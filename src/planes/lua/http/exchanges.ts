/** Exchanges of this worker, from the decision to the end of the response. Their tables are reused. */
import { wholeText } from "../../../core/platform.js";
import { newLimitedFields } from "../../../engine/limited-request.js";
import type { PlaneExchange } from "../exchange.js";
import type { PlaneAccount } from "./state.js";

export interface Exchange extends PlaneExchange<PlaneAccount> {
  /** Unique among the exchanges of this worker. */
  id: string;
  /** Bytes of the request head, where the proxy counts them with the body; negative if the request has no body. */
  headBytes: number;
  /** Envoy only: bytes of the request body, as declared, or UNKNOWN_LENGTH. */
  contentLength: number;
}

/** The counts are kept here because the length of a Lua list has to be searched for. */
const spare: { list: Exchange[]; count: number; created: number } = { list: [], count: 0, created: 0 };

export function newExchange(): Exchange {
  if (spare.count === 0) {
    spare.created = spare.created + 1;
    const exchange = newLimitedFields() as Exchange;
    exchange.id = wholeText(spare.created);
    return exchange;
  }
  spare.count = spare.count - 1;
  return spare.list[spare.count]!;
}

export function reuse(exchange: Exchange): void {
  spare.list[spare.count] = exchange;
  spare.count = spare.count + 1;
}
