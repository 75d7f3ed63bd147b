/** HTTP client for the control listener: one timeout per call, validated replies, readable errors. */
import { Agent, request } from "undici";
import type * as z from "zod";
import { type Called, notTollgate, refused, unreachable } from "./failures.js";
import type { Target } from "./target.js";

export interface Call<T> {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** With query, begins with a slash. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  reply: z.ZodType<T>;
  /** Other statuses with the same reply. */
  alsoFine?: number[];
}

export interface ControlClient {
  /** host:port, for error messages. */
  readonly place: string;
  /** Throws a Failure. */
  call<T>(call: Call<T>): Promise<T>;
  /** Aborts running calls. */
  close(): Promise<void>;
}

/** Far more than any valid reply. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

export function createControlClient({ url, token, timeoutMs }: Target): ControlClient {
  // An own agent can be destroyed, so that the command ends at once.
  const agent = new Agent({ connect: { timeout: timeoutMs }, maxResponseSize: MAX_REPLY_BYTES });
  const place = new URL(url).host;

  async function call<T>({ method, path, body, headers = {}, reply, alsoFine = [] }: Call<T>): Promise<T> {
    const shownPath = path.split("?", 1)[0] ?? "";
    const called: Called = { place, path: shownPath, isOrder: method !== "GET", hasToken: token !== "", timeoutMs };
    let status: number;
    let text: string;
    try {
      const answer = await request(url + path, {
        method,
        dispatcher: agent,
        signal: AbortSignal.timeout(timeoutMs),
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        headers: {
          accept: "application/json",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      status = answer.statusCode;
      text = await answer.body.text();
    } catch (error) {
      throw unreachable(error, called);
    }
    const json = parsed(text);
    if (json === undefined) throw notTollgate(called, status, "without JSON");
    if (status !== 200 && !alsoFine.includes(status)) throw refused(status, json, called);
    const checked = reply.safeParse(json);
    if (checked.success) return checked.data;
    // A newer service may send additional fields.
    if (checked.error.issues.every(({ code }) => code === "unrecognized_keys")) return json as T;
    const first = checked.error.issues[0];
    throw notTollgate(called, status, `an unexpected reply (${first?.path.join(".")}: ${first?.message})`);
  }

  return { place, call, close: () => agent.destroy() };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
