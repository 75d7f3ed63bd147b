/** A store in which the ledgers of nodes are lost: what they are granted is missing in every later listing. */
import type { Store } from "../../src/store/store.js";

/** For `createQuota`. The nodes and their ledgers are recorded under other keys. */
export function withLostLedgers(store: Store): Store {
  return {
    ...store,
    run(script, keys, args, options) {
      if (script === "shards-fix") return store.run(script, keys, args, options);
      const [cluster, nodes, ledger, ...apps] = keys;
      return store.run(script, [cluster!, `${nodes}:lost`, `${ledger}:lost`, ...apps], args, options);
    },
  };
}
