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

interface Numbered {
  number: number;
  at: number;
}

export function createRecentRecalls({ shards }: Pick<Quota, "shards">, clock: Clock) {
  /** App, or "*" and a shard → its last recall, oldest first. */
  const recalls = new Map<string, Numbered>();
  /** Node → the last recall that it was told of, the longest silent first. */
  const told = new Map<string, Numbered>();
  let number = 0;
  const stops = shards.map((shard, i) => watchRecalls(shard, clock, (app) => put(recalls, nameOf(app, i), ++number)));

  const nameOf = (app: string, shard: number) => (app === ALL_APPS && shards.length > 1 ? `${ALL_APPS}${shard}` : app);

  function put(map: Map<string, Numbered>, key: string, value: number): void {
    map.delete(key);
    map.set(key, { number: value, at: clock.now() });
  }

  function dropOld(map: Map<string, Numbered>): void {
    const since = clock.now() - KEPT_MS;
    for (const [key, { at }] of map) {
      if (at > since) break;
      map.delete(key);
    }
  }

  function after(before: number): string[] {
    dropOld(recalls);
    const apps: string[] = [];
    for (const [app, recall] of recalls) if (recall.number > before) apps.push(app);
    return apps.length > MOST_APPS ? [ALL_APPS] : apps;
  }

  return {
    /** The recalled apps; "*" stands for all apps, and with several shards "*3" for those of shard 3. */
    list: () => after(0),

    /**
     * As `list`, without those that the node was told of with an earlier reply: it would report again and again. If that
     * reply was lost, the next recall follows while tokens are short.
     */
    forNode(node: string): string[] {
      dropOld(told);
      const apps = after(told.get(node)?.number ?? 0);
      put(told, node, number);
      return apps;
    },

    close(): void {
      for (const stop of stops) stop();
    },
  };
}
