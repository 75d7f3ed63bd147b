/** Plays a scenario on several planes in parallel. */
import type { PlaneKind } from "../support/planes.js";
import type { Verdict } from "./limits.js";

/** Waits for all of them, even if one fails: none may leave servers behind. */
export async function playAll(play: (kind: PlaneKind) => Promise<Verdict>, kinds: PlaneKind[]): Promise<Verdict[]> {
  const played = await Promise.allSettled(kinds.map(play));
  return played.map((each) => {
    if (each.status === "rejected") throw each.reason;
    return each.value;
  });
}
