/** Verifies the number of shards before the first call: with another number, apps would have second buckets. */
import { shardsKey } from "../core/keys.js";
import { StoreError } from "../store/errors.js";
import { callOperation } from "../store/operations.js";
import type { Store } from "../store/store.js";

/** The cluster was created with another number of shards. Only another configuration helps. */
export class ShardMismatch extends StoreError {
  constructor(cluster: string, recorded: number, configured: number) {
    super(
      "denied",
      `cluster.shards is ${configured}, but the cluster ${JSON.stringify(cluster)} was created with ${recorded}. ` +
        `Set cluster.shards to ${recorded}, or choose another cluster.id.`,
    );
    this.name = "ShardMismatch";
  }
}

/** The store, with calls that wait until the number of shards is verified. */
export function createShardCount(store: Store, cluster: string, shards: number) {
  let verified = false;
  let running: Promise<void> | undefined;

  async function compare(): Promise<void> {
    const recorded = await callOperation(store, "shards-fix", {
      keys: { shards: shardsKey(cluster) },
      values: { shards },
    });
    if (recorded.shards !== shards) throw new ShardMismatch(cluster, recorded.shards, shards);
    verified = true;
  }

  /** Rejects with a ShardMismatch, or with the error of the store: then the next call tries again. */
  function verify(): Promise<void> {
    running ??= compare().finally(() => {
      running = undefined;
    });
    return running;
  }

  return {
    verify,
    run: (...call: Parameters<Store["run"]>) =>
      verified ? store.run(...call) : verify().then(() => store.run(...call)),
  };
}
