/** A lock in the store, for one owner. */
import { INVALID_ARGUMENT, OK } from "../core/codes.js";
import { lockKey } from "../core/keys.js";
import { InvalidArgument } from "../store/errors.js";
import type { Store } from "../store/store.js";

export interface Lock {
  /** Acquires or renews the lock. `leftMs`: remaining time of the current holder, this owner or another. */
  take(ttlMs: number): Promise<{ ours: boolean; leftMs: number }>;
  /** Has no effect on a lock that another owner holds. */
  release(): Promise<void>;
}

const TAKE = 0;
const RELEASE = 1;

export function createLock(store: Store, clusterId: string, name: string, owner: string): Lock {
  async function run(ttlMs: number, what: number) {
    const [code, left] = await store.run("lock", [lockKey(clusterId, name)], [owner, ttlMs, what]);
    if (code === INVALID_ARGUMENT) throw new InvalidArgument("lock", String(left));
    return { ours: code === OK, leftMs: Number(left) };
  }
  return {
    take: (ttlMs) => run(ttlMs, TAKE),
    async release() {
      await run(1, RELEASE);
    },
  };
}
