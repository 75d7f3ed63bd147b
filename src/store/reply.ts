/** Checks that a script replied with a flat list of integers and strings. */
import type { ScriptReply } from "../scripts/redis-api.js";
import { StoreError } from "./errors.js";

/**
 * Redis truncates fractions, ends a list at the first nil and turns false into nil, so other replies would differ
 * between the stores. They are defects.
 */
export function checkReply(script: string, reply: unknown): ScriptReply {
  if (!Array.isArray(reply))
    throw new StoreError("script", `${script} replied with ${describe(reply)} instead of a list`);
  for (const [index, item] of reply.entries()) {
    if (typeof item === "string" || Number.isSafeInteger(item)) continue;
    throw new StoreError("script", `${script} replied with ${describe(item)} at position ${index + 1}`);
  }
  return reply as ScriptReply;
}

function describe(value: unknown): string {
  return typeof value === "number" ? String(value) : value === null ? "null" : typeof value;
}
