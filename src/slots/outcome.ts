/** Outcome of a failed store call, as the slot engine distinguishes them. */
import { BUSY, FAILED, UNAVAILABLE } from "../engine/slots/contact.js";
import { StoreError } from "../store/errors.js";

const unavailable = new Set<string>(["timeout", "unavailable", "denied", "closed"]);

export function outcomeOf(error: unknown): string {
  if (!(error instanceof StoreError)) return FAILED;
  if (error.kind === "overloaded") return BUSY;
  return unavailable.has(error.kind) ? UNAVAILABLE : FAILED;
}
