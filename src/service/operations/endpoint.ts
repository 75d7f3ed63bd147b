/** An endpoint of the control listener: who may call it, its schemas, its handler, and the reply. */
import type * as z from "zod";
import type { Difference } from "../../config/live/differences.js";
import { INVALID_ARGUMENT } from "../../core/codes.js";
import type { Problem } from "./contract/contract.js";

/**
 * Who may call. "public": anyone, for probes. "address": allowed addresses. "plane", "viewer" and "admin": allowed addresses
 * with a token of that role; operators may do what viewers may.
 */
export type Role = "public" | "address" | "plane" | "viewer" | "admin";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

export interface Call<Body = unknown, Query = unknown> {
  /** The named segments of the path. */
  params: Record<string, string>;
  query: Query;
  body: Body;
  /** Who makes the change: the owner of the token; with a shared one as claimed in the body or by X-Operator, or "admin". */
  operator: string;
  access: CallAccess;
}

/** How the caller was authorised. */
export interface CallAccess {
  /** The token of the caller, or of the session; empty if the endpoint needs none. */
  token: string;
  /** The operator or data plane that owns the credentials; empty if several share them. */
  name: string;
  /** False: the caller is a viewer. */
  mayChange: boolean;
  /** Whether a data plane may act for this node, or for this proxy with connections. */
  mayActFor(node: string): boolean;
  /** For long replies: whether the same request would still be allowed. */
  isCurrent(): boolean;
}

export interface Reply<T = unknown> {
  status: number;
  /** Sent as JSON, or as it is if it is a string, a buffer, or an AsyncIterable of strings, and `mediaType` is set. */
  body: T | Problem;
  headers?: Record<string, string>;
  mediaType?: string;
  /** Ends a reply in parts whose caller takes them no more. */
  gone?: AbortSignal;
  /** For the audit log: the state before and after. */
  before?: unknown;
  after?: unknown;
  /** For the audit log: the options of the configuration that changed. */
  changes?: readonly Difference[];
  /** For the audit log, instead of the request body, which may contain secrets. */
  parameters?: unknown;
  /** Status 200, but nothing was changed. */
  refused?: boolean;
}

/** Router, access control, validation and the OpenAPI document are derived from it. */
export interface Endpoint<Body = unknown, Query = unknown, Result = unknown> {
  method: Method;
  /** May contain named segments in braces: /apps/{id}. */
  path: string;
  role: Role;
  /** A sentence for the OpenAPI document. */
  summary: string;
  /** Not part of the API: left out of the OpenAPI document. */
  hidden?: boolean;
  /** The name in the audit log, if the endpoint changes something. */
  action?: string;
  /** New work of data planes: refused with 503 if the process is overloaded. */
  isShed?: boolean;
  query?: z.ZodType<Query>;
  /** A JSON body, validated before the handler is called. */
  request?: z.ZodType<Body>;
  /** Default 256 KiB. */
  mostBodyBytes?: number;
  /** For callers without a JSON parser: plain text in both directions. */
  text?: {
    /** Converts the lines of the body to a value for `request`. */
    parse(lines: string[]): unknown;
    /** The lines of the reply. */
    format(result: Result): string[];
  };
  /** The body of a 200 reply: JSON, or text with this media type. */
  reply: z.ZodType<Result> | { text: string };
  /** Other statuses; without a schema the body is a problem. */
  others?: Record<number, { summary: string; reply?: z.ZodType }>;
  /** May throw a Rejected or a StoreError. */
  handle(call: Call<Body, Query>): Promise<Reply<NoInfer<Result>>> | Reply<NoInfer<Result>>;
}

type Definition<Body, Query, Result> = Omit<Endpoint<Body, Query, Result>, "method" | "path" | "role">;

/** Checks the handler against the types of the schemas, and then forgets them. */
export function endpoint<Body = undefined, Query = undefined, Result = unknown>(
  method: Method,
  path: string,
  role: Role,
  definition: Definition<Body, Query, Result>,
): Endpoint {
  // Safe: the listener validates body and query with the schemas before it calls the handler.
  return { method, path, role, ...(definition as Definition<unknown, unknown, unknown>) };
}

/** Operators may call it; viewers too, unless it changes something. */
export function admin<Body = undefined, Query = undefined, Result = unknown>(
  method: Method,
  path: string,
  definition: Definition<Body, Query, Result>,
): Endpoint {
  return endpoint(method, `/admin/ratelimit/${path}`, definition.action === undefined ? "viewer" : "admin", definition);
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

/** Ends a call with this reply, before anything was changed. */
export class Rejected extends Error {
  constructor(readonly reply: Reply<never>) {
    super("request rejected");
  }
}

export function badField(field: string, reason: string): Rejected {
  return new Rejected(problem(400, INVALID_ARGUMENT, `${field} ${reason}`, { field }));
}
