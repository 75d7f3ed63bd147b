/** Listens for recalls: requests to all nodes to return tokens that they do not need at once. */
import type { Clock } from "../shared/clock.js";
import type { Unsubscribe } from "../store/store.js";
import type { ShardQuota } from "./shard-quota.js";

/** Time between attempts to subscribe. Without a subscription, tokens return with the reports of the nodes. */
const RETRY_MS = 1000;

/** Calls `recalled` with an app, or "*" for all apps of the shard. Subscribes again until it succeeds. Returns a function that stops it. */
export function watchRecalls(
  quota: Pick<ShardQuota, "onRecall">,
  clock: Clock,
  recalled: (app: string) => void,
): () => void {
  let closed = false;
  let unsubscribe: Unsubscribe | undefined;
  let cancelRetry = () => {};
  subscribe();

  function subscribe(): void {
    quota.onRecall(recalled).then(
      (stop) => {
        if (closed) stop();
        else unsubscribe = stop;
      },
      () => {
        if (!closed) cancelRetry = clock.after(RETRY_MS, subscribe);
      },
    );
  }

  return () => {
    closed = true;
    cancelRetry();
    unsubscribe?.();
  };
}
