/** What the proxy needs to trace requests. The service implements it. */
import type { Arrival, Verdict } from "./request-admission.js";

export interface Tracing {
  /** Milliseconds, for `decided`. */
  now(): number;
  /** Called for each decision. Undefined: the request is not traced. Must not throw. */
  decided(request: Arrival, verdict: Verdict, startedMs: number): RequestSpan | undefined;
}

/** A traced request. */
export interface RequestSpan {
  /** Replaces the header of the client, so that the spans of the backend follow this one. */
  readonly traceparent: string;
  responded(status: number): void;
  /** The exchange or connection has ended. */
  end(): void;
}

/** @param headers names and values; the name in lower case */
export function setHeader(headers: string[], name: string, value: string): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (headers[at]!.toLowerCase() === name) headers.splice(at, 2);
  }
  headers.push(name, value);
}
