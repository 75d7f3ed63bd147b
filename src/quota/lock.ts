/** A lock of the cluster as one of those sees it who want it. */
import { INVALID_ARGUMENT, OK } from "../core/codes.js";
import { lockKey } from "../core/keys.js";
import { RefusedArgument } from "../store/refused-argument.js";
import type { Store } from "../store/store.js";

export interface Lock {
  /** Takes or renews it. `leftMs` is how long it lasts, for this owner or for the other one that holds it. */
  take(ttlMs: number): Promise<{ ours: boolean; leftMs: number }>;
  /** Does nothing to a lock that another holds. */
  release(): Promise<void>;
}

const TAKE = 0;
const RELEASE = 1;

export function createLock(store: Store, clusterId: string, name: string, owner: string): Lock {
  async function run(ttlMs: number, what: number) {
    const [code, left] = await store.run("lock", [lockKey(clusterId, name)], [owner, ttlMs, what]);
    if (code === INVALID_ARGUMENT) throw new RefusedArgument("lock", String(left));
    return { ours: code === OK, leftMs: Number(left) };
  }
  return {
    take: (ttlMs) => run(ttlMs, TAKE),
    async release() {
      await run(1, RELEASE);
    },
  };
}
