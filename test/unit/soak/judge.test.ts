/** The judge of the soak test: a history without violations passes, and each violation is found. */
import { describe, expect, it } from "vitest";
import { recordOf } from "../../../soak/faults.js";
import type { Exchange, FaultRecord, History, ProcessSample } from "../../../soak/history.js";
import { judge } from "../../../soak/judge.js";

const RULES = { rate: 10, burst: 20, onStoreFailure: "closed" as const };

/** Admitted requests without latency. */
const admitted = (count: number, at: number, changes: Partial<Exchange> = {}): Exchange[] =>
  Array.from({ length: count }, () => ({
    app: "a",
    plane: "nginx",
    from: at,
    to: at,
    status: 200,
    reason: "",
    retryAfterS: 0,
    ...changes,
  }));

/** The burst at the start, then the rate for a minute. */
const steady = [...admitted(20, 0), ...Array.from({ length: 60 }, (_, i) => admitted(10, (i + 1) * 1_000)).flat()];

function historyOf(changes: Partial<History> = {}): History {
  const exchanges = changes.exchanges ?? steady;
  const spent = exchanges.filter(({ status }) => status === 200).length;
  return {
    durationMs: 60_000,
    rules: { a: RULES },
    nodes: 4,
    failOpenTokens: 5,
    unreportedTokens: 8,
    maxPerPod: 2,
    slotLeaseMs: 6_000,
    exchanges,
    faults: [],
    hostile: [],
    socketsOpenedAt: [],
    logs: [],
    buckets: [],
    degradedAt: [],
    sockets: [{ at: 0, pods: [1, 2] }],
    processes: [],
    filesAtStart: {},
    filesAtEnd: {},
    slotsAtEnd: 0,
    ledgers: [{ app: "a", tokens: 20, held: 0, spent }],
    errors: [],
    ...changes,
  };
}

const found = (changes: Partial<History>) => judge(historyOf(changes)).findings.map(({ check }) => check);

function fault(from: number, to: number, { unavailableTo = 0, ...effects }: Partial<FaultRecord>): FaultRecord {
  return recordOf({ name: "a fault", effects, play: async () => {} }, from, to, unavailableTo);
}

describe("a history", () => {
  it("at the limit in every window passes", () => {
    const verdict = judge(historyOf());
    expect(verdict.findings).toEqual([]);
    expect(verdict.passed).toBe(true);
    expect(verdict.apps[0]).toMatchObject({ offered: 620, admitted: 620, worstWindow: expect.closeTo(1) });
  });

  it("with errors fails", () => {
    const verdict = judge(historyOf({ errors: ["a process ended"] }));
    expect(verdict).toMatchObject({ passed: false, findings: [{ check: "errors", detail: "a process ended" }] });
  });
});

describe("a window with one token too many is found", () => {
  it.each([
    ["at the start", admitted(21, 0)],
    ["in the middle of a long run", [...steady, ...admitted(1, 30_000)]],
    ["after a pause, in which the bucket filled", [...admitted(20, 0), ...admitted(21, 50_000)]],
  ])("%s", (_where, exchanges) => {
    expect(found({ exchanges })).toEqual(["windows"]);
  });

  it("unless a request may have been admitted earlier", () => {
    const slow = admitted(1, 1_000, { from: 900 });
    expect(found({ exchanges: [...admitted(30, 1_000), ...slow] })).toEqual(["windows"]);
    expect(found({ exchanges: [...admitted(20, 1_000), ...slow] })).toEqual([]);
  });
});

describe("a fault permits what is documented, and no more:", () => {
  const over = (count: number, at: number) => [...admitted(20, at), ...admitted(count, at)];

  it("a killed node its unreported tokens", () => {
    const faults = [fault(10_000, 10_000, { lostNodes: 1 })];
    // Both at the beginning and at the end of the fault.
    expect(found({ faults, exchanges: [...admitted(20, 9_999), ...admitted(16, 10_000)] })).toEqual([]);
    expect(found({ faults, exchanges: [...admitted(20, 9_999), ...admitted(17, 10_000)] })).toEqual(["windows"]);
    expect(found({ faults, exchanges: over(1, 20_000) })).toEqual(["windows"]);
  });

  it("a store failure the amount of the policy, for each second", () => {
    const faults = [fault(10_000, 14_000, { withoutStore: true })];
    const open = { a: { ...RULES, onStoreFailure: "open" as const } };
    // 4 nodes × 5 tokens per second in addition to 10.
    const during = Array.from({ length: 5 }, (_, i) => admitted(30, 10_000 + i * 1_000)).flat();
    expect(found({ faults, rules: open, exchanges: during })).toEqual([]);
    expect(found({ faults, exchanges: during })).toEqual(["windows"]);
    expect(found({ rules: open, exchanges: during })).toEqual(["windows"]);
    expect(found({ degradedAt: [12_000], rules: open, exchanges: during })).toEqual([]);
  });

  it("a clock that jumps ahead one more burst", () => {
    const faults = [fault(10_000, 10_001, { refilled: true })];
    expect(found({ faults, exchanges: [...admitted(20, 9_000), ...admitted(20, 10_002)] })).toEqual([]);
    expect(found({ faults, exchanges: [...admitted(20, 9_000), ...admitted(80, 10_002)] })).toEqual(["windows"]);
  });
});

describe("a response is found", () => {
  const refusal = (changes: Partial<Exchange>) => admitted(1, 20_000, changes);

  it.each<[string, Partial<Exchange>, FaultRecord[]]>([
    ["429 with a wrong reason", { status: 429, reason: "store_unavailable" }, []],
    [
      "429 while the store is unavailable",
      { status: 429, reason: "quota_exhausted" },
      [fault(10_000, 25_000, { unavailableTo: 25_000 })],
    ],
    ["500", { status: 500, reason: "internal_error" }, []],
    ["503 with a wrong reason", { status: 503, reason: "plane_error" }, []],
    [
      "none, without a fault of the plane",
      { status: 0, reason: "ECONNRESET" },
      [fault(19_000, 21_000, { planes: ["envoy"] })],
    ],
  ])("%s", (_what, changes, faults) => {
    expect(found({ exchanges: refusal(changes), faults })).toEqual(["responses"]);
  });

  it("except for a refusal that was received before the store was unavailable, until its Retry-After", () => {
    const faults = [fault(10_000, 25_000, { unavailableTo: 25_000 })];
    const again = refusal({ status: 429, reason: "quota_exhausted" });
    const earlier = (retryAfterS: number, plane = "nginx") =>
      admitted(1, 9_000, { status: 429, reason: "quota_exhausted", retryAfterS, plane });
    expect(found({ faults, exchanges: [...earlier(11), ...again] })).toEqual([]);
    expect(found({ faults, exchanges: [...earlier(10), ...again] })).toEqual(["responses"]);
    expect(found({ faults, exchanges: [...earlier(11, "envoy"), ...again] })).toEqual(["responses"]);
  });

  it("unless it is a proper refusal, or the plane had a fault", () => {
    const exchanges = [
      ...refusal({ status: 429, reason: "quota_exhausted" }),
      ...refusal({ status: 503, reason: "store_unavailable" }),
      ...refusal({ status: 0, reason: "ECONNRESET" }),
    ];
    expect(found({ exchanges, faults: [fault(19_000, 21_000, { planes: ["nginx"] })] })).toEqual([]);
  });
});

describe("slots and ledgers", () => {
  it.each<[string, Partial<History>]>([
    ["slots: above the limit", { sockets: [{ at: 5, pods: [0, 3] }] }],
    ["slots: left over", { slotsAtEnd: 1 }],
    ["ledgers: too many tokens", { ledgers: [{ app: "a", tokens: 21, held: 0, spent: 620 }] }],
    ["ledgers: charged twice", { ledgers: [{ app: "a", tokens: 20, held: 0, spent: 621 }] }],
    ["ledgers: lost", { ledgers: [{ app: "a", tokens: 20, held: 0, spent: 619 }] }],
    ["ledgers: tokens on leases", { ledgers: [{ app: "a", tokens: 15, held: 5, spent: 620 }] }],
  ])("%s", (what, changes) => {
    expect(found(changes)).toEqual([what.split(":")[0]]);
  });

  it("may exceed the slots of a pod while a proxy is stopped longer than its slots last, and not earlier or later", () => {
    const stop: FaultRecord = { ...fault(10_000, 20_000, { planes: ["envoy"] }), name: "Envoy stopped" };
    const at = (time: number, name = stop.name) =>
      found({ sockets: [{ at: time, pods: [3, 2] }], faults: [{ ...stop, name }] });
    expect(at(14_000)).toEqual([]);
    expect(at(22_000)).toEqual([]);
    expect(at(13_000)).toEqual(["slots"]);
    expect(at(23_500)).toEqual(["slots"]);
    expect(at(15_000, "Envoy killed")).toEqual(["slots"]);
  });

  it("may lose what killed nodes did not report, and charge requests without a response", () => {
    const faults = [fault(10_000, 10_000, { lostNodes: 1, planes: ["nginx"] })];
    expect(found({ faults, ledgers: [{ app: "a", tokens: 20, held: 0, spent: 612 }] })).toEqual([]);
    const exchanges = [...steady, ...admitted(1, 10_000, { status: 0, reason: "ECONNRESET" })];
    expect(found({ faults, exchanges, ledgers: [{ app: "a", tokens: 20, held: 0, spent: 621 }] })).toEqual([]);
  });
});

describe("a process", () => {
  const samples = (usage: (at: number) => Partial<ProcessSample>) =>
    Array.from({ length: 60 }, (_, i) => ({
      at: i * 1_000,
      name: "nginx",
      pid: 1,
      memoryMb: 100,
      files: 50,
      ...usage(i),
    }));

  it("whose memory or files grow until the end is found", () => {
    expect(found({ processes: samples((at) => ({ memoryMb: 100 + 5 * at })) })).toEqual(["memory"]);
    expect(found({ processes: samples((at) => ({ files: 50 + 10 * at })) })).toEqual(["files"]);
  });

  it("that grows at the start only is not", () => {
    expect(
      found({ processes: samples((at) => ({ memoryMb: at < 20 ? 100 : 400, files: at < 20 ? 5 : 500 })) }),
    ).toEqual([]);
  });
});
