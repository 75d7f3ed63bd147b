/** Reads what a caller sends: no more than agreed, of an agreed kind, and as the schema wants it; else it says what is wrong. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type * as z from "zod";
import { INVALID_ARGUMENT } from "../../core/codes.js";
import { type Description, problem, type Reply } from "./endpoint.js";
import { wrongField } from "./wrong-fields.js";

export type Read<T> = { value: T } | { refusal: Reply };

export const MOST_BODY_BYTES = 256 * 1024;
/** Nobody writes more levels than this, and no reader of it may run out of stack. */
const MOST_LEVELS = 64;

export interface Body {
  text: string;
  mediaType: string;
}

/** An endpoint that takes no body takes an empty one. */
export async function readBody(request: IncomingMessage, description: Description): Promise<Read<Body>> {
  const kinds = description.raw === undefined ? ["application/json"] : Object.keys(description.raw);
  const most = description.mostBodyBytes ?? MOST_BODY_BYTES;
  const takesBody = description.request !== undefined || description.raw !== undefined;
  const given = request.headers["content-type"];
  const mediaType = (given ?? kinds[0] ?? "").split(";", 1)[0]!.trim().toLowerCase();
  if (takesBody && !kinds.includes(mediaType)) {
    const detail = `${kinds.join(" or ")} is read`;
    return { refusal: problem(415, "unsupported_media_type", "content_type", { detail }) };
  }
  const text = await readText(request, takesBody ? most : 0);
  if (text === "too large") {
    const detail = takesBody ? `at most ${most} bytes` : "no body is wanted";
    return { refusal: problem(413, "content_too_large", "body", { detail }) };
  }
  // Nobody is left to answer to.
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

/** An empty body stands for an empty object: orders whose fields all have defaults need none. */
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

/** Each name once, and only texts. */
export function parseQuery<T>(query: URLSearchParams, schema: z.ZodType<T> | undefined): Read<T> {
  const names = [...query.keys()];
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) return { refusal: badField("query", "has a name twice") };
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

/** What no schema sees: names that belong to the language, and depths without end. */
function shapeFault(value: unknown): string | undefined {
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) return `must have at most ${MOST_LEVELS} levels`;
    const next: unknown[] = [];
    for (const item of level) {
      if (typeof item !== "object" || item === null) continue;
      if (Object.hasOwn(item, "__proto__")) return "must not have the name __proto__";
      for (const inner of Object.values(item)) next.push(inner);
    }
    level = next;
  }
  return undefined;
}
