/** Whether the store answers, asked at most once a second however many ask. */
import type { Store } from "../store/store.js";

const FRESH_MS = 1_000;

export function createReadiness(store: Pick<Store, "inspect">): () => Promise<boolean> {
  let asked: Promise<boolean> | undefined;
  let askedAt = 0;
  return () => {
    const now = performance.now();
    if (asked === undefined || now - askedAt > FRESH_MS) {
      askedAt = now;
      asked = store.inspect().then(
        ({ connectedNodes }) => connectedNodes > 0,
        () => false,
      );
    }
    return asked;
  };
}
