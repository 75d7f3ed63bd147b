/** Recent recalls of tokens, for data planes that learn of them with their next sync reply. */
import { ALL_APPS } from "../../../core/keys.js";
import type { Quota } from "../../../quota/quota.js";
import { watchRecalls } from "../../../quota/recall-watch.js";
import type { Clock } from "../../../shared/clock.js";

/** Longer than the time between two messages of a node. */
const KEPT_MS = 1500;
/** If more apps are recalled at once, all are. */
const MOST_APPS = 200;

export type RecentRecalls = ReturnType<typeof createRecentRecalls>;

export function createRecentRecalls(quota: Pick<Quota, "onRecall">, clock: Clock) {
  /** App → when, oldest first. */
  const recalls = new Map<string, number>();
  const close = watchRecalls(quota, clock, (app) => {
    recalls.delete(app);
    recalls.set(app, clock.now());
  });

  /** The recalled apps; "*" stands for all. */
  function list(): string[] {
    const since = clock.now() - KEPT_MS;
    for (const [app, at] of recalls) {
      if (at > since) break;
      recalls.delete(app);
    }
    return recalls.size > MOST_APPS ? [ALL_APPS] : [...recalls.keys()];
  }

  return { list, close };
}
