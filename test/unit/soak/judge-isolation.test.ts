/** The judge of the soak test finds what hostile tenants, planes and clients did to others. */
import { expect, it } from "vitest";
import { recordOf } from "../../../soak/faults.js";
import type { Exchange, History, ProcessSample } from "../../../soak/history.js";
import { hostileRecord, hostiles } from "../../../soak/hostile.js";
import { judgeIsolation } from "../../../soak/judge-isolation.js";

const RULES = { rate: 10, burst: 20, onStoreFailure: "open" as const };
const empty: History = {
  ...{ durationMs: 60_000, nodes: 4, failOpenTokens: 5, unreportedTokens: 8, maxPerPod: 2, slotLeaseMs: 6_000 },
  rules: { quiet: { ...RULES, isNeverRefused: true }, busy: RULES },
  ...{ exchanges: [], faults: [], hostile: [], degradedAt: [], sockets: [], socketsOpenedAt: [] },
  ...{ filesAtStart: {}, filesAtEnd: {}, processes: [], logs: [], buckets: [], slotsAtEnd: 0, ledgers: [], errors: [] },
};
const found = (changes: Partial<History>) => judgeIsolation({ ...empty, ...changes }).map(({ check }) => check);

const exchange = (changes: Partial<Exchange>): Exchange => ({
  ...{ app: "quiet", plane: "nginx", from: 1_000, to: 1_010, status: 200, reason: "", retryAfterS: 0 },
  ...changes,
});
const restart = recordOf({ name: "nginx killed", effects: { planes: ["nginx"] }, play: async () => {} }, 500, 1_500);

it.each([
  [429, "cluster_exhausted"],
  [429, "quota_exhausted"],
  [503, "upstream_queue_timeout"],
  [0, "ECONNREFUSED"],
])("an app at half of its limit that gets %i %s is a finding", (status, reason) => {
  expect(found({ exchanges: [exchange({}), exchange({ status, reason })] })).toEqual(["isolation"]);
});

it("refusals of other apps, and by a plane that was killed, are no finding", () => {
  expect(found({ exchanges: [exchange({ app: "busy", status: 429 })] })).toEqual([]);
  expect(found({ exchanges: [exchange({ status: 503 })], faults: [restart] })).toEqual([]);
  expect(found({ exchanges: [exchange({ status: 503, plane: "envoy" })], faults: [restart] })).toEqual(["isolation"]);
});

it("files that stay open without clients are a finding", () => {
  const filesAtStart = { "service-a worker": 40 };
  expect(found({ filesAtStart, filesAtEnd: { "service-a worker": 104 } })).toEqual([]);
  expect(found({ filesAtStart, filesAtEnd: { "service-a worker": 105 } })).toEqual(["files"]);
});

it("a process that is replaced without a fault has crashed", () => {
  const sample = (at: number, pid: number, name = "nginx worker"): ProcessSample => ({
    ...{ at, name, pid, memoryMb: 50, files: 20 },
  });
  const replaced = [sample(0, 1), sample(0, 2), sample(1_000, 1), sample(1_000, 2), sample(2_000, 1), sample(2_000, 3)];
  expect(found({ processes: replaced.slice(0, 5) })).toEqual([]);
  expect(found({ processes: replaced })).toEqual(["crashes"]);
  expect(found({ processes: replaced, faults: [restart] })).toEqual([]);
  expect(found({ processes: [sample(0, 1, "redis"), sample(1_000, 2, "redis")], faults: [restart] })).toEqual([
    "crashes",
  ]);
});

it("files, memory and logs without bounds are findings", () => {
  const sample = { at: 0, name: "service-a worker", pid: 1, memoryMb: 50, files: 1_010 };
  expect(found({ processes: [sample] })).toEqual(["files"]);
  expect(found({ processes: [{ ...sample, files: 10, memoryMb: 900 }] })).toEqual(["memory"]);
  expect(found({ logs: [{ at: 0, name: "service 0", bytes: 400_000 }] })).toEqual(["logs"]);
});

it("a hoarder must leave WebSockets to others", () => {
  const hoarder = hostiles.find(({ effects }) => effects.hoardsSockets)!;
  const hostile = [hostileRecord(hoarder, 10_000, 20_000)];
  expect(found({ hostile, socketsOpenedAt: [11_000, 21_000] })).toEqual(["isolation"]);
  expect(found({ hostile, socketsOpenedAt: [15_000] })).toEqual([]);
});
