/** Makes sure that a script answered a flat list of whole numbers and texts, wherever it ran. */
import type { ScriptReply } from "../scripts/redis-api.js";
import { StoreError } from "./errors.js";

/**
 * Redis cuts off fractions, ends a list at the first nil and turns false into nil. Such an answer would differ
 * between the stores, so it is refused as the defect that it is.
 */
export function checkReply(script: string, reply: unknown): ScriptReply {
  if (!Array.isArray(reply)) throw new StoreError("script", `${script} answered ${describe(reply)} instead of a list`);
  for (const [index, item] of reply.entries()) {
    if (typeof item === "string" || Number.isSafeInteger(item)) continue;
    throw new StoreError("script", `${script} answered ${describe(item)} at position ${index + 1}`);
  }
  return reply as ScriptReply;
}

function describe(value: unknown): string {
  return typeof value === "number" ? String(value) : value === null ? "null" : typeof value;
}
