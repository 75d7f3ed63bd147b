/** HTTP requests of one app at an even rate, with the outcome of each. */
import { Agent, request } from "undici";
import { pause, waitFor } from "./wait-for.js";

export interface Answered {
  /** On the test's clock, in milliseconds. The decision was made between `sentAt` and `at`. */
  sentAt: number;
  at: number;
  /** 0 without a response. */
  status: number;
  error: string;
}

export interface HttpLoad {
  /** The outcomes so far, in the order in which they were known. */
  readonly answers: Answered[];
  /** Sends no more, and waits for the responses that are missing. */
  stop(): Promise<Answered[]>;
}

/** Connections of one load. Further requests wait for one. */
const CONNECTIONS = 64;
/** Responses that are missing at the same time. */
export const MAX_PENDING = 1_000;

/**
 * Sends requests until it is stopped. When the machine is too slow for the rate, missed requests are sent late; those
 * that would exceed MAX_PENDING are not sent.
 */
export function startHttpLoad(url: string, app: string, perSecond: number, timeoutMs = 300_000): HttpLoad {
  const agent = new Agent({ connections: CONNECTIONS, headersTimeout: timeoutMs, bodyTimeout: timeoutMs });
  const answers: Answered[] = [];
  const pending = new Set<Promise<void>>();
  const startedAt = performance.now();
  let sent = 0;
  let stopped = false;

  async function send(): Promise<void> {
    const sentAt = performance.now();
    try {
      const { statusCode, body } = await request(url, { dispatcher: agent, headers: { "x-app-id": app } });
      await body.dump();
      answers.push({ sentAt, at: performance.now(), status: statusCode, error: "" });
    } catch (error) {
      answers.push({ sentAt, at: performance.now(), status: 0, error: String(error) });
    }
  }

  async function sendAll(): Promise<void> {
    while (!stopped) {
      const due = Math.floor(((performance.now() - startedAt) / 1000) * perSecond);
      for (; sent < due && pending.size < MAX_PENDING; sent++) {
        const one = send().finally(() => pending.delete(one));
        pending.add(one);
      }
      sent = due;
      await pause(2);
    }
  }

  const sending = sendAll();
  return {
    answers,
    async stop() {
      stopped = true;
      await sending;
      await Promise.all(pending);
      await agent.close();
      return answers;
    },
  };
}

export async function sendLoad(
  url: string,
  app: string,
  perSecond: number,
  seconds: number,
  timeoutMs?: number,
): Promise<Answered[]> {
  const load = startHttpLoad(url, app, perSecond, timeoutMs);
  await pause(seconds * 1000);
  return load.stop();
}

/**
 * Loads all targets until this many requests have passed in total, and one was refused, however long that takes on a
 * busy machine.
 */
export async function loadUntilPassed(
  targets: readonly { url: string; perSecond: number }[],
  app: string,
  passed: number,
  timeoutMs?: number,
): Promise<Answered[]> {
  const loads = targets.map(({ url, perSecond }) => startHttpLoad(url, app, perSecond, timeoutMs));
  const all = () => loads.flatMap(({ answers }) => answers);
  const enough = () => passedOf(all()).length >= passed && all().some(({ status }) => status === 429);
  try {
    await waitFor(`${passed} requests to pass and one to be refused`, enough, { withinMs: 150_000, everyMs: 200 });
  } finally {
    await Promise.all(loads.map((load) => load.stop()));
  }
  return all();
}

export const passedOf = (answers: Answered[]) => answers.filter(({ status }) => status === 200);
