/** HTTP client for the control listener: one timeout per call, validated replies, readable errors. */
import { Agent, request } from "undici";
import type * as z from "zod";
import { type Called, notTollgate, refused, unreachable } from "./failures.js";
import type { Target } from "./target.js";

export interface Call<T> {
  /** Default: GET. */
  method?: "GET" | "POST" | "PUT" | "DELETE";
  /** With query, begins with a slash. */
  path: string;
  body?: unknown;
  reply: z.ZodType<T>;
}

export type ControlClient = ReturnType<typeof createControlClient>;

/** Far more than any valid reply. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

export function createControlClient({ url, token, timeoutMs }: Target) {
  // An own agent can be destroyed, so that the command ends at once.
  const agent = new Agent({ connect: { timeout: timeoutMs }, maxResponseSize: MAX_REPLY_BYTES });

  /** Throws a Failure. */
  async function call<T>({ method = "GET", path, body, reply }: Call<T>): Promise<T> {
    const called: Called = {
      place: new URL(url).host,
      path: path.replace(/\?.*/, ""),
      isMutating: method !== "GET",
      hasToken: token !== "",
      timeoutMs,
    };
    const { status, text } = await request(url + path, {
      method,
      dispatcher: agent,
      signal: AbortSignal.timeout(timeoutMs),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
      .then(async (answer) => ({ status: answer.statusCode, text: await answer.body.text() }))
      .catch((error: unknown) => {
        throw unreachable(error, called);
      });
    const json = parsed(text);
    if (json === undefined) throw notTollgate(called, status, "without JSON");
    const checked = reply.safeParse(json);
    // The health endpoints send their reply with 503 too.
    if (checked.success) return checked.data;
    // A newer service may send additional fields.
    if (checked.error.issues.every(({ code }) => code === "unrecognized_keys")) return json as T;
    if (status !== 200) throw refused(status, json, called);
    const first = checked.error.issues[0];
    throw notTollgate(called, status, `an unexpected reply (${first?.path.join(".")}: ${first?.message})`);
  }

  /** `close` aborts running calls. */
  return { call, close: () => agent.destroy() };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
