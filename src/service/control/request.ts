/** Reads and validates requests: size, media type, encoding and schema of the body, the query, and the operator's name. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type * as z from "zod";
import { badField, type Call, type CallAccess, type Endpoint, problem, Rejected } from "../operations/endpoint.js";
import { wrongField } from "./wrong-fields.js";

const LONGEST_QUERY = 2_048;
const DEFAULT_BODY_BYTES = 256 * 1024;
/** Protects recursive readers of the body against stack overflow. */
const MOST_LEVELS = 64;
const DEFAULT_OPERATOR = "admin";
export const LONGEST_OPERATOR = 128;

/** Throws a Rejected. */
export async function readCall(
  request: IncomingMessage,
  endpoint: Endpoint,
  params: Record<string, string>,
  { search, access }: { search: string; access: CallAccess },
): Promise<Call> {
  if (search.length > LONGEST_QUERY) throw badField("query", `must have at most ${LONGEST_QUERY} characters`);
  const query = parseQuery(new URLSearchParams(search), endpoint.query);
  const text = await readBody(request, endpoint);
  const body =
    endpoint.request === undefined ? undefined : parseBody(text, isPlainText(request), endpoint.request, endpoint.text);
  return { params, query, body, operator: access.name === "" ? operatorOf(request, body) : access.name, access };
}

export const isPlainText = (request: IncomingMessage) => mediaType(request) === "text/plain";

function mediaType(request: IncomingMessage): string {
  return (request.headers["content-type"] ?? "application/json").replace(/;.*/, "").trim().toLowerCase();
}

/** The size of a body before it is read; the largest that is accepted, if the request does not state it. */
export function bodyBytes({ headers }: IncomingMessage, endpoint: Endpoint): number {
  const most = endpoint.mostBodyBytes ?? DEFAULT_BODY_BYTES;
  const declared = headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : most;
  return Math.min(declared, most);
}

/** Endpoints without a body accept an empty one. */
async function readBody(request: IncomingMessage, endpoint: Endpoint): Promise<string> {
  const takesBody = endpoint.request !== undefined;
  const kinds = endpoint.text === undefined ? ["application/json"] : ["application/json", "text/plain"];
  if (takesBody && !kinds.includes(mediaType(request))) {
    const detail = `must be ${kinds.join(" or ")}`;
    throw new Rejected(problem(415, "unsupported_media_type", "content_type", { detail }));
  }
  const most = takesBody ? (endpoint.mostBodyBytes ?? DEFAULT_BODY_BYTES) : 0;
  const bytes = await readBytes(request, most);
  if (bytes === "too large") {
    const detail = takesBody ? `at most ${most} bytes` : "this endpoint takes no body";
    throw new Rejected(problem(413, "content_too_large", "body", { detail }));
  }
  // The client is gone; the reply is only logged.
  if (bytes === "aborted") throw new Rejected(problem(400, "bad_request", "aborted"));
  if (!isUtf8(bytes)) throw badField("body", "must be UTF-8");
  return bytes.toString("utf8");
}

function readBytes(request: IncomingMessage, most: number): Promise<Buffer | "too large" | "aborted"> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    if (Number(request.headers["content-length"] ?? 0) > most) return resolve("too large");
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= most) chunks.push(chunk);
      else resolve("too large");
    });
    request.on("end", () => resolve(Buffer.concat(chunks)));
    request.on("close", () => resolve("aborted"));
  });
}

/** An empty JSON body means an empty object, for requests whose fields all have defaults. */
function parseBody(text: string, isPlain: boolean, request: z.ZodType, format: Endpoint["text"]): unknown {
  if (isPlain) return checked(format?.parse(text.replace(/\r?\n$/, "").split(/\r?\n/)), request);
  let value: unknown;
  try {
    value = text === "" ? {} : JSON.parse(text);
  } catch {
    throw badField("body", "must be JSON");
  }
  checkShape(value);
  return checked(value, request);
}

/** Rejects repeated names. */
function parseQuery(query: URLSearchParams, schema: z.ZodType | undefined): unknown {
  const names = [...query.keys()];
  if (new Set(names).size < names.length) throw badField("query", "contains a name twice");
  return schema === undefined ? undefined : checked(Object.fromEntries(query), schema);
}

function checked(value: unknown, schema: z.ZodType): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw wrongField(result.error, value, schema);
}

/** Checks that schemas do not make: `__proto__` and nesting depth. */
function checkShape(value: unknown): void {
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) throw badField("body", `must be nested at most ${MOST_LEVELS} levels deep`);
    const next: unknown[] = [];
    for (const item of level) {
      if (typeof item !== "object" || item === null) continue;
      if (Object.hasOwn(item, "__proto__")) throw badField("body", "must not contain the name __proto__");
      for (const inner of Object.values(item)) next.push(inner);
    }
    level = next;
  }
}

function operatorOf(request: IncomingMessage, body: unknown): string {
  const own: unknown = Object(body).operator;
  if (typeof own === "string" && own !== "") return own;
  const named = request.headers["x-operator"] ?? DEFAULT_OPERATOR;
  if (typeof named === "string" && named !== "" && named.length <= LONGEST_OPERATOR) return named;
  throw badField("X-Operator", `must be 1 to ${LONGEST_OPERATOR} characters`);
}
