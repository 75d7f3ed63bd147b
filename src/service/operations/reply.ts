/** The result of an operation: HTTP status and JSON body, and what the audit log records. */
import { STORE_UNAVAILABLE } from "../../core/codes.js";
import type { StoreError, StoreErrorKind } from "../../store/errors.js";
import type { Problem } from "./contract/contract.js";

export interface Reply<T = unknown> {
  status: number;
  /** Sent as JSON, or as it is if it is a string and `mediaType` is set. */
  body: T | Problem;
  headers?: Record<string, string>;
  mediaType?: string;
  /** For the audit log: the state before and after. */
  before?: unknown;
  after?: unknown;
  /** For the audit log, instead of the request body, which may contain secrets. */
  parameters?: unknown;
  /** Status 200, but nothing was changed. */
  refused?: boolean;
}

export function ok<T>(body: T, more: Omit<Reply<T>, "status" | "body"> = {}): Reply<T> {
  return { status: 200, body, ...more };
}

export function problem(
  status: number,
  error: string,
  reason: string,
  more: Omit<Problem, "error" | "reason"> = {},
): Reply<never> {
  return { status, body: { error, reason, ...more } };
}

const storeDetails: Record<StoreErrorKind, string> = {
  timeout: "the store did not answer in time; the operation may or may not have been executed",
  unavailable: "the store cannot be reached",
  overloaded: "too many store calls are in flight",
  out_of_memory: "the store is out of memory and rejects writes",
  denied: "the store rejects this service: check user name and password",
  script: "a store script failed: this is a bug",
  closed: "the service is stopping",
};

export function storeProblem({ kind }: StoreError): Reply<never> {
  return {
    ...problem(503, STORE_UNAVAILABLE, kind, { detail: storeDetails[kind] }),
    headers: { "Retry-After": "1" },
  };
}
