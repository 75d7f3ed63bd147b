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

/** Header names and values in the order in which they are sent. */
export function rateLimitHeaders(decision: Decision, options: HeaderOptions = ALL_HEADERS): Record<string, string> {
  const headers: Record<string, string> = {};
  const write = options === ALL_HEADERS ? writeAll : headerWriter(options, setField);
  const { app, limit, remaining, rate } = decision;
  write(headers, decision, limitTexts(app, limit, rate), resetSeconds(limit, remaining, rate));
  return headers;
}

function setField(headers: Record<string, string>, name: string, value: string): void {
  headers[name] = value;
}

const writeAll = headerWriter(ALL_HEADERS, setField);

export function refusalOf(decision: Decision): Refusal {
  return decisionRefusal(decision);
}

export function retryAfterSeconds(decision: Decision): number {
  return secondsOf(decision.retryAfterMs);
}
