/** What an endpoint of the control listener is: how it is called and by whom, what it takes, and what it answers. */
import type * as z from "zod";
import { STORE_UNAVAILABLE } from "../../core/codes.js";
import type { StoreError, StoreErrorKind } from "../../store/errors.js";
import type { Problem } from "./contract/contract.js";

/**
 * Who may call. "public": anyone, as probes come from anywhere. "address": whoever has an allowed address. "plane" and
 * "admin": an allowed address and the token of that role; neither token serves for the other.
 */
export type Role = "public" | "address" | "plane" | "admin";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

/** All that the document and the checks need to know, without what it does. */
export interface Description<Body = unknown, Query = unknown> {
  method: Method;
  /** May hold names in braces, each for one part of the path: /apps/{id}. */
  path: string;
  role: Role;
  /** A sentence for the document. */
  summary: string;
  /** Set where it changes something: its name in the audit log. */
  action?: string;
  query?: z.ZodType<Query>;
  /** A JSON body, checked before the handler sees it. */
  request?: z.ZodType<Body>;
  /** Bodies by media type that the handler reads itself; the schemas are for the document alone. */
  raw?: Record<string, z.ZodType>;
  /** Default 256 KiB. */
  mostBodyBytes?: number;
  /** What is answered when all goes well. A text has a media type of its own. */
  reply: z.ZodType | { text: string };
  /** Other statuses of this endpoint and when they come; without a schema, a problem is answered. */
  others?: Record<number, { summary: string; reply?: z.ZodType }>;
}

export interface Call<Body = unknown, Query = unknown> {
  /** The parts of the path that have names. */
  params: Record<string, string>;
  query: Query;
  body: Body;
  /** Of an endpoint with `raw`: the body as it came, and its media type without parameters. */
  text: string;
  mediaType: string;
  /** Of the client. */
  address: string;
  /** Who gives the order: by the body, by X-Operator, or "admin". */
  operator: string;
}

export interface Reply<T = unknown> {
  status: number;
  /** A text is sent as it is where the endpoint answers texts; all else as JSON. */
  body: T | Problem;
  headers?: Record<string, string>;
  mediaType?: string;
  /** For the audit log: what was so before, and what is now. */
  before?: unknown;
  after?: unknown;
  /** Likewise, in the place of the body: where that may hold what must not be written. */
  parameters?: unknown;
  /** Answered with success, yet nothing was done. */
  refused?: boolean;
}

export interface Endpoint extends Description {
  handle(call: Call): Promise<Reply> | Reply;
}

/** Keeps the types of body and query, so that `bind` can hand them to the handler. */
export function describe<Body = undefined, Query = undefined>(
  description: Description<Body, Query>,
): Description<Body, Query> {
  return description;
}

export function bind<Body, Query>(
  description: Description<Body, Query>,
  handle: (call: Call<Body, Query>) => Promise<Reply> | Reply,
): Endpoint {
  // Sound because the listener checks body and query with these very schemas before it calls.
  return { ...description, handle: handle as Endpoint["handle"] };
}

export function answer<T>(body: T, more: Omit<Reply<T>, "status" | "body"> = {}): Reply<T> {
  return { status: 200, body, ...more };
}

export function problem(
  status: number,
  error: string,
  reason: string,
  more: Omit<Problem, "error" | "reason"> = {},
  headers?: Record<string, string>,
): Reply<never> {
  return { status, body: { error, reason, ...more }, ...(headers === undefined ? {} : { headers }) };
}

const storeDetails: Record<StoreErrorKind, string> = {
  timeout: "the store did not answer in time; what was asked of it may or may not have been done",
  unavailable: "the store cannot be reached just now",
  overloaded: "too many calls of the store are under way",
  out_of_memory: "the store has no memory left and takes nothing new",
  denied: "the store refuses this service: see its user and password",
  script: "the store could not run a script: a defect",
  closed: "the service is stopping",
};

/** The store's failure, never the caller's. */
export function storeProblem({ kind }: StoreError): Reply<never> {
  return problem(503, STORE_UNAVAILABLE, kind, { detail: storeDetails[kind] }, { "Retry-After": "1" });
}
