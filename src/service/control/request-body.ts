/** Reads and validates request bodies and queries: size, media type, encoding and schema. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type * as z from "zod";
import { INVALID_ARGUMENT } from "../../core/codes.js";
import { problem, type Reply } from "../operations/reply.js";
import type { Description } from "./endpoint.js";
import { wrongField } from "./wrong-fields.js";

export type Read<T> = { value: T } | { refusal: Reply };

export const MOST_BODY_BYTES = 256 * 1024;
/** Protects recursive readers of the body against stack overflow. */
const MOST_LEVELS = 64;

export interface Body {
  text: string;
  mediaType: string;
}

/** Endpoints without a body accept an empty one. */
export async function readBody(request: IncomingMessage, description: Description): Promise<Read<Body>> {
  const kinds = description.raw === undefined ? ["application/json"] : Object.keys(description.raw);
  const most = description.mostBodyBytes ?? MOST_BODY_BYTES;
  const takesBody = description.request !== undefined || description.raw !== undefined;
  const given = request.headers["content-type"];
  const mediaType = (given ?? kinds[0] ?? "").split(";", 1)[0]!.trim().toLowerCase();
  if (takesBody && !kinds.includes(mediaType)) {
    const detail = `must be ${kinds.join(" or ")}`;
    return { refusal: problem(415, "unsupported_media_type", "content_type", { detail }) };
  }
  const text = await readText(request, takesBody ? most : 0);
  if (text === "too large") {
    const detail = takesBody ? `at most ${most} bytes` : "this endpoint takes no body";
    return { refusal: problem(413, "content_too_large", "body", { detail }) };
  }
  // The client is gone; the reply is only logged.
  if (text === "aborted") return { refusal: problem(400, "bad_request", "aborted") };
  if (!isUtf8(text)) return { refusal: badField("body", "must be UTF-8") };
  return { value: { text: text.toString("utf8"), mediaType } };
}

function readText(request: IncomingMessage, most: number): Promise<Buffer | "too large" | "aborted"> {
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

/** An empty body means an empty object, for requests whose fields all have defaults. */
export function parseBody<T>(text: string, schema: z.ZodType<T>): Read<T> {
  let value: unknown;
  try {
    value = text === "" ? {} : JSON.parse(text);
  } catch {
    return { refusal: badField("body", "must be JSON") };
  }
  const fault = shapeFault(value);
  if (fault !== undefined) return { refusal: badField("body", fault) };
  return check(value, schema);
}

/** Rejects repeated names. */
export function parseQuery<T>(query: URLSearchParams, schema: z.ZodType<T> | undefined): Read<T> {
  const names = [...query.keys()];
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) return { refusal: badField("query", "contains a name twice") };
  if (schema === undefined) return { value: undefined as T };
  return check(Object.fromEntries(query), schema);
}

function check<T>(value: unknown, schema: z.ZodType<T>): Read<T> {
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data };
  const { field, reason } = wrongField(result.error, value, schema);
  return { refusal: problem(400, INVALID_ARGUMENT, reason, { field }) };
}

function badField(field: string, reason: string): Reply {
  return problem(400, INVALID_ARGUMENT, `${field} ${reason}`, { field });
}

/** Checks that schemas do not make: `__proto__` and nesting depth. */
function shapeFault(value: unknown): string | undefined {
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) return `must be nested at most ${MOST_LEVELS} levels deep`;
    const next: unknown[] = [];
    for (const item of level) {
      if (typeof item !== "object" || item === null) continue;
      if (Object.hasOwn(item, "__proto__")) return "must not contain the name __proto__";
      for (const inner of Object.values(item)) next.push(inner);
    }
    level = next;
  }
  return undefined;
}
