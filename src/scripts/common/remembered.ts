/** Remembered answers: an operation that comes a second time gets the answer of the first, and changes nothing. */
import { joinValues, splitText, storedNumber } from "../../core/platform.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { MAX_COUNTER } from "./cluster.js";

/** How long the answer to an operation with an id of its own is remembered: far longer than anyone retries. */
const REMEMBER_MS = 600000;
const NO_NUMBER = -0.5;

/** A reply of whole numbers and codes as one text. Codes contain no space; no number is further from zero than `largest`. */
export function packReply(reply: ScriptReply, largest: number): string {
  return joinValues(reply, " ", largest);
}

export function unpackReply(text: string): ScriptReply {
  const reply: ScriptReply = [];
  for (const part of splitText(text, " ")) {
    const value = storedNumber(part, NO_NUMBER);
    if (value === NO_NUMBER) reply.push(part);
    else reply.push(value);
  }
  return reply;
}

/** The answer this operation got before, or an empty list. */
export function rememberedReply(redis: RedisApi, operationKey: string): ScriptReply {
  const text = redis.call("GET", operationKey);
  if (text === false) return [];
  return unpackReply(text);
}

export function remember(redis: RedisApi, operationKey: string, reply: ScriptReply): ScriptReply {
  redis.call("SET", operationKey, packReply(reply, MAX_COUNTER), "PX", REMEMBER_MS);
  return reply;
}
