/** What the store says of itself, asked at most once a second however many ask. */
import type { Store, StoreFacts } from "../../store/store.js";
import { READ_MS, within } from "./deadline.js";

const FRESH_MS = 1_000;

/** Undefined: it does not answer. */
export type AskStore = () => Promise<StoreFacts | undefined>;

export function createStoreFacts(store: Pick<Store, "inspect">): AskStore {
  let asked: Promise<StoreFacts | undefined> | undefined;
  let askedAt = 0;
  return () => {
    const now = performance.now();
    if (asked === undefined || now - askedAt > FRESH_MS) {
      askedAt = now;
      asked = within(READ_MS, store.inspect()).then(
        (facts) => (facts.connectedNodes > 0 ? facts : undefined),
        () => undefined,
      );
    }
    return asked;
  };
}
