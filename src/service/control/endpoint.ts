/** An endpoint of the control listener: method, path, who may call it, its schemas and its handler. */
import type * as z from "zod";
import type { Reply } from "../operations/reply.js";

/**
 * Who may call. "public": anyone, for probes. "address": allowed addresses. "plane" and "admin": allowed addresses with
 * the token of that role; the other token is not accepted.
 */
export type Role = "public" | "address" | "plane" | "admin";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

/** An endpoint without its handler, for validation and the OpenAPI document. */
export interface Description<Body = unknown, Query = unknown> {
  method: Method;
  /** May contain named segments in braces: /apps/{id}. */
  path: string;
  role: Role;
  /** A sentence for the OpenAPI document. */
  summary: string;
  /** The name in the audit log, if the endpoint changes something. */
  action?: string;
  query?: z.ZodType<Query>;
  /** A JSON body, validated before the handler is called. */
  request?: z.ZodType<Body>;
  /** Bodies by media type that the handler parses itself; the schemas are for the OpenAPI document only. */
  raw?: Record<string, z.ZodType>;
  /** Default 256 KiB. */
  mostBodyBytes?: number;
  /** The body of a 200 reply: JSON, or text with this media type. */
  reply: z.ZodType | { text: string };
  /** Other statuses; without a schema the body is a problem. */
  others?: Record<number, { summary: string; reply?: z.ZodType }>;
}

export interface Call<Body = unknown, Query = unknown> {
  /** The named segments of the path. */
  params: Record<string, string>;
  query: Query;
  body: Body;
  /** For endpoints with `raw`: the body, and its media type without parameters. */
  text: string;
  mediaType: string;
  /** The address of the client. */
  address: string;
  /** Who makes the change: from the body, from X-Operator, or "admin". */
  operator: string;
}

export interface Endpoint extends Description {
  handle(call: Call): Promise<Reply> | Reply;
}

/** Infers the types of body and query, so that `bind` can pass them to the handler. */
export function describe<Body = undefined, Query = undefined>(
  description: Description<Body, Query>,
): Description<Body, Query> {
  return description;
}

export function bind<Body, Query>(
  description: Description<Body, Query>,
  handle: (call: Call<Body, Query>) => Promise<Reply> | Reply,
): Endpoint {
  // Safe: the listener validates body and query with these schemas before it calls the handler.
  return { ...description, handle: handle as Endpoint["handle"] };
}
