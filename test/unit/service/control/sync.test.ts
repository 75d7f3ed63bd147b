/** The degradation level that the service sends to data planes. */
import { expect, it } from "vitest";
import type { ShardQuota } from "../../../../src/quota/quota.js";
import { createSyncHandler } from "../../../../src/service/control/plane-api/sync.js";
import { StoreError } from "../../../../src/store/errors.js";

const message = { node: "n", epoch: 1, seq: 1, shard: 0, leave: false, apps: [] };
const answer = { code: "ok", liveNodes: 1, emergency: false, emergencyLeftMs: 0, known: true, apps: [] };

it.each([
  ["fast answers", 1, undefined, 0],
  ["slow ones", 50, undefined, 1],
  ["very slow ones", 300, undefined, 2],
  ["timeouts", 1, new StoreError("timeout", "late"), 3],
])("%s", async (_what, tookMs, error, level) => {
  let now = 0;
  let failing = error !== undefined;
  const grant = async () => {
    now += tookMs;
    if (failing) throw error;
    return answer;
  };
  const ledger = async () => ({ seq: 0, closed: false, held: 0, apps: [] });
  const shard = { grant, report: async () => answer, ledger } as unknown as ShardQuota;
  const quota = { shards: [shard] };
  const sync = createSyncHandler({
    ...{ quota, apps: () => [], configVersion: () => "v", timeoutMs: () => 1_000, recalled: () => [], now: () => now },
  });
  if (failing) await expect(sync(message)).rejects.toBe(error);
  failing = false;
  expect(await sync(message)).toMatchObject({ degradation: level });
});
