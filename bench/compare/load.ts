/** Requests to several nodes at an even rate, with the outcome of each. */
import { Agent, request } from "undici";
import { pace } from "../support/pace.js";

export interface Part {
  url: string;
  headers: Record<string, string>;
  perSecond: number;
}

export interface Outcome {
  sentAt: number;
  at: number;
  /** 0 without a response within two seconds. */
  status: number;
}

const TIMEOUT_MS = 2_000;

/** The outcomes of each part, in the order in which they were known. */
export async function load(parts: Part[], seconds: number): Promise<Outcome[][]> {
  const dispatcher = new Agent({
    connections: 64,
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
    connectTimeout: TIMEOUT_MS,
  });
  try {
    return await Promise.all(parts.map((part) => send(part, seconds, dispatcher)));
  } finally {
    await dispatcher.destroy();
  }
}

async function send({ url, headers, perSecond }: Part, seconds: number, dispatcher: Agent): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const pending = new Set<Promise<void>>();
  async function one(): Promise<void> {
    const sentAt = performance.now();
    let status = 0;
    try {
      const { statusCode, body } = await request(url, { dispatcher, headers });
      await body.dump();
      status = statusCode;
    } catch {
      // No response: status 0.
    }
    outcomes.push({ sentAt, at: performance.now(), status });
  }
  await pace({ perSecond, seconds }, () => {
    const sent = one().finally(() => pending.delete(sent));
    pending.add(sent);
  });
  await Promise.all(pending);
  return outcomes;
}

/** The app "app" at `times` its rate, spread over the nodes by `shares`. */
export const spread = (urls: string[], perSecond: number, shares = urls.map(() => 1 / urls.length)): Part[] =>
  urls.map((url, i) => ({ url, headers: { "x-app-id": "app" }, perSecond: perSecond * shares[i]! }));
