/** Locks of a cluster: one service does what would be a waste if all did it. */
import { randomUUID } from "node:crypto";
import { INVALID_ARGUMENT, OK } from "../core/codes.js";
import { lockKey } from "../core/keys.js";
import { InvalidArgument } from "../store/errors.js";
import type { Store } from "../store/store.js";

export type Lock = ReturnType<typeof createLock>;

/** A lock that expires. Its owner is unique per process: a restarted service is another owner. */
export function createLock(store: Pick<Store, "run">, cluster: string, name: string, node: string) {
  const key = lockKey(cluster, name);
  const owner = `${node.replace(/[^A-Za-z0-9._:-]/g, "_").slice(0, 80)}:${randomUUID()}`;
  async function run(ttlMs: number, what: number) {
    const [code, left] = await store.run("lock", [key], [owner, ttlMs, what]);
    if (code === INVALID_ARGUMENT) throw new InvalidArgument("lock", String(left));
    return { ours: code === OK, leftMs: Number(left) };
  }
  return {
    owner,
    /** Acquires or renews it. `leftMs`: remaining time of the current holder, this owner or another. */
    take: (ttlMs: number) => run(ttlMs, 0),
    /** Has no effect if another owner holds it. */
    release: () => run(1, 1),
  };
}
