/** What the service replies to data planes: the degradation level, and tokens for values of limits. */
import { expect, it } from "vitest";
import { readConfig } from "../../../../src/config/load.js";
import { bucketLimitsOf } from "../../../../src/config/options/limiter.js";
import { createQuota, type ShardQuota } from "../../../../src/quota/quota.js";
import { createSyncHandler } from "../../../../src/service/control/plane-api/sync.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
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
    ...{
      quota,
      apps: () => [],
      configVersion: () => "v",
      timeoutMs: () => 1_000,
      recalled: () => [],
      clock: { now: () => now },
    },
  });
  if (failing) await expect(sync(message)).rejects.toBe(error);
  failing = false;
  expect(await sync(message)).toMatchObject({ degradation: level });
});

const { config } = readConfig("limits: [{ name: per-user, key: [user], rate: 100/h, burst: 100 }]\n", {});
const COUNTERS = { granted: 0, spent: 0, returned: 0, need: 1, want: 1, final: false };

function limitsWorld(shards: number) {
  const quota = createQuota(createEmbeddedStore(), {
    ...{ id: "c", capacity: 1e6, rate: 1e6, nodeTtlMs: 10_000, shards },
  });
  const sync = createSyncHandler({
    ...{ quota, apps: () => [], configVersion: () => "v", timeoutMs: () => 1_000, recalled: () => [] },
    limitOf: (id) => bucketLimitsOf(config!, id),
  });
  return { quota, sync };
}

it("a value of a configured limit gets tokens; one of another limit does not, and creates nothing", async () => {
  const { quota, sync } = limitsWorld(1);
  const apps = ["limit:per-user:ann", "limit:other:ann", "limit:per-user", "limit:"].map((app) => ({
    app,
    ...COUNTERS,
  }));
  const reply = await sync({ ...message, apps });
  expect(reply.apps.map(({ app, code, grant }) => [app, code, grant])).toEqual([
    ["limit:per-user:ann", "ok", 1],
    ["limit:other:ann", "unknown_app", 0],
    ["limit:per-user", "unknown_app", 0],
    ["limit:", "unknown_app", 0],
  ]);
  expect((await quota.ledger("n@1")).apps.map(({ app }) => app)).toEqual(["limit:per-user:ann"]);
});

it("after the final report about a value the ledger has no entry of it, and what was spent stays charged", async () => {
  const { quota, sync } = limitsWorld(1);
  const app = "limit:per-user:ann";
  await sync({ ...message, apps: [{ app, ...COUNTERS, need: 5, want: 5 }] });
  const final = { app, granted: 5, spent: 3, returned: 2, need: 0, want: 0, final: true };
  for (const seq of [2, 3]) await sync({ ...message, seq, apps: [final] });
  expect((await quota.ledger("n@1")).apps).toEqual([]);
  expect(await quota.inspect(bucketLimitsOf(config!, app)!)).toMatchObject({ spent: 3, granted: 5, returned: 2 });
  const again = await sync({ ...message, seq: 4, apps: [{ app, ...COUNTERS }] });
  expect(again.apps[0]).toMatchObject({ code: "ok", granted: 1 });
});

it("a value is accepted on its own shard only", async () => {
  const { sync } = limitsWorld(4);
  const apps = [{ app: "limit:per-user:ann", ...COUNTERS }];
  const replies = await Promise.allSettled([0, 1, 2, 3].map((shard) => sync({ ...message, shard, apps })));
  expect(replies.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});
