/** Saved replies: a repeated operation gets the first reply and changes nothing. */
import { joinValues, splitText, storedNumber } from "../../core/platform.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { MAX_COUNTER } from "./cluster.js";

/** How long the reply of an operation is saved: much longer than callers retry. */
const REMEMBER_MS = 600000;
const NO_NUMBER = -0.5;

/** Joins whole numbers and codes to one text. Codes contain no space; the absolute value of a number is at most `largest`. */
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

/** The first reply to this operation, or an empty list. */
export function savedReply(redis: RedisApi, operationKey: string): ScriptReply {
  const text = redis.call("GET", operationKey);
  if (text === false) return [];
  return unpackReply(text);
}

export function saveReply(redis: RedisApi, operationKey: string, reply: ScriptReply): ScriptReply {
  redis.call("SET", operationKey, packReply(reply, MAX_COUNTER), "PX", REMEMBER_MS);
  return reply;
}
