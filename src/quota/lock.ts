/** Locks of a cluster: one service does what would be a waste if all did it. */
import { randomUUID } from "node:crypto";
import { OK } from "../core/codes.js";
import { lockKey } from "../core/keys.js";
import { callOperation } from "../store/operations.js";
import type { Store } from "../store/store.js";

export type Lock = ReturnType<typeof createLock>;

/** A lock that expires. Its owner is unique per process: a restarted service is another owner. */
export function createLock(store: Pick<Store, "run">, cluster: string, name: string, node: string) {
  const key = lockKey(cluster, name);
  const owner = `${node.replace(/[^A-Za-z0-9._:-]/g, "_").slice(0, 80)}:${randomUUID()}`;
  async function call(ttlMs: number, release: boolean) {
    const { code, leftMs } = await callOperation(store, "lock", {
      keys: { lock: key },
      values: { owner, ttlMs, release },
    });
    return { ours: code === OK, leftMs };
  }
  return {
    owner,
    /** Acquires or renews it. `leftMs`: remaining time of the current holder, this owner or another. */
    take: (ttlMs: number) => call(ttlMs, false),
    /** Has no effect if another owner holds it. */
    release: () => call(1, true),
  };
}
