/** A decision as an HTTP response: the headers of every response, and the status and body of a refusal. */
import {
  ALL_HEADERS,
  decisionRefusal,
  type HeaderOptions,
  headerWriter,
  limitTexts,
  type Refusal,
  resetSeconds,
  retryAfterSeconds as secondsOf,
} from "../core/refusals.js";
import type { Decision } from "./decision.js";

/** Names and values, in the order in which they are sent. */
export type DecisionHeaders = Record<string, string>;

function setField(headers: DecisionHeaders, name: string, value: string): void {
  headers[name] = value;
}

/** Returns a function that makes the headers of a decision. */
export function decisionHeaders(options: HeaderOptions): (decision: Decision) => DecisionHeaders {
  const write = headerWriter(options, setField);
  return (decision) => {
    const { app, limit, remaining, rate } = decision;
    const headers: DecisionHeaders = {};
    write(headers, decision, limitTexts(app, limit, rate), resetSeconds(limit, remaining, rate));
    return headers;
  };
}

const allHeaders = decisionHeaders(ALL_HEADERS);

export function rateLimitHeaders(decision: Decision, options?: HeaderOptions): DecisionHeaders {
  return options === undefined ? allHeaders(decision) : decisionHeaders(options)(decision);
}

export function refusalOf(decision: Decision): Refusal {
  return decisionRefusal(decision);
}

export function retryAfterSeconds(decision: Decision): number {
  return secondsOf(decision.retryAfterMs);
}
