/** An even pace of requests at a plane whose processes may die meanwhile: every request ends, with an answer or without. */
import { Agent, request } from "undici";
import type { Answered } from "../support/gateway-process.js";
import { pause } from "../support/wait-for.js";

/** A connection that a dying process had accepted, but not begun to read, is never answered. */
const PATIENCE_MS = 10_000;

export async function steadyLoad(url: string, app: string, perSecond: number, seconds: number): Promise<Answered[]> {
  const dispatcher = new Agent({ connections: 64, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS });
  const answers: Answered[] = [];
  const pending = new Set<Promise<void>>();
  const begun = performance.now();
  let sent = 0;
  while (performance.now() - begun < seconds * 1000) {
    const due = Math.floor(((performance.now() - begun) / 1000) * perSecond);
    for (; sent < due; sent++) {
      const one = ask().finally(() => pending.delete(one));
      pending.add(one);
    }
    await pause(2);
  }
  await Promise.all(pending);
  await dispatcher.close();
  return answers;

  async function ask(): Promise<void> {
    const sentAt = performance.now();
    try {
      const { statusCode, body } = await request(url, { dispatcher, headers: { "x-app-id": app } });
      await body.dump();
      answers.push({ sentAt, at: performance.now(), status: statusCode, error: "" });
    } catch (error) {
      answers.push({ sentAt, at: performance.now(), status: 0, error: String(error) });
    }
  }
}
