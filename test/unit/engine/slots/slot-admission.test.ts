/** Admission of connections by the slot engine: when the store is asked, what its reply means, and decisions without it. */
import { describe, expect, it } from "vitest";
import { renewalMs } from "../../../../src/core/slot-lease.js";
import { ANSWERED, BUSY, FAILED, NOT_CONFIGURED, UNAVAILABLE } from "../../../../src/engine/slots/contact.js";
import { newKeeperState, requestRecovery } from "../../../../src/engine/slots/keeper.js";
import {
  newReleaseQueue,
  queueRelease,
  releasesAnswered,
  releasesLeft,
  takeReleases,
} from "../../../../src/engine/slots/releases.js";
import {
  ACQUIRE,
  admissionWaitMs,
  candidatePods,
  DECIDED,
  newSlotAdmission,
  nextAdmissionStep,
  STATE_LOST,
  slotAcquired,
  UNCERTAIN,
  WAIT,
  WITHOUT_STORE,
} from "../../../../src/engine/slots/slot-admission.js";
import {
  newSlotCounters,
  placeWithoutStore,
  podCountKey,
  refusalWithoutStore,
} from "../../../../src/engine/slots/without-store.js";

const LEASE_MS = 30_000;
const nothing = () => undefined;

function start() {
  const keeper = newKeeperState<never>(
    {
      proxy: "p1",
      batch: 10,
      fixedBeatMs: 0,
      maxRenewals: 1,
      maxReclaims: 1,
      events: {
        storeLost: nothing,
        storeFound: nothing,
        stateLost: nothing,
        leasesLost: nothing,
        reclaimed: nothing,
        closed: nothing,
        recoveryEnded: nothing,
      },
    },
    LEASE_MS,
    0,
  );
  keeper.contact.incarnation = "1";
  return { keeper, admission: newSlotAdmission("chat", ["a", "b"], 0, 1_000) };
}

describe("the next step of an admission", () => {
  it("is to ask the store, as long as all connections have their leases", () => {
    const { keeper, admission } = start();
    expect(nextAdmissionStep(keeper, admission, 0)).toBe(ACQUIRE);
  });

  it("is to wait for a recovery, but no longer than leaves the store time to answer", () => {
    const { keeper, admission } = start();
    requestRecovery(keeper);
    expect(nextAdmissionStep(keeper, admission, 499)).toBe(WAIT);
    expect(nextAdmissionStep(keeper, admission, 500)).toBe(WITHOUT_STORE);
  });

  it("is to decide without a store that is away, at once", () => {
    const { keeper, admission } = start();
    keeper.contact.away = true;
    expect(nextAdmissionStep(keeper, admission, 0)).toBe(WITHOUT_STORE);
  });

  it("after a pause is to wait, and to recover, even before the beat that is due", () => {
    const { keeper } = start();
    const now = renewalMs(LEASE_MS) + 1;
    expect(nextAdmissionStep(keeper, newSlotAdmission("chat", ["a"], now, 1_000), now)).toBe(WAIT);
    expect(keeper.recoverNow).toBe(true);
  });
});

describe("a reply to an acquire", () => {
  const reply = (outcome: string, code = "", incarnation = "1") => ({ outcome, code, incarnation });
  it.each([
    ["a decision of the store", reply(ANSWERED, "LIMIT_EXCEEDED"), 1, DECIDED, 0],
    ["a route that the service does not have", reply(NOT_CONFIGURED), 1, DECIDED, 0],
    ["a store that did nothing", reply(BUSY), 1, WITHOUT_STORE, 0],
    ["a store that may have taken the slot", reply(FAILED), 1, UNCERTAIN, 2],
    ["no reply", reply(UNAVAILABLE), 1_000, UNCERTAIN, 2],
    ["a reply from before a pause", reply(ANSWERED, "SUCCESS"), renewalMs(LEASE_MS), UNCERTAIN, 2],
    ["a store that lost its slots", reply(ANSWERED, "FORGOTTEN", "2"), 1, STATE_LOST, 0],
  ])("%s", (_, received, now, meaning, releases) => {
    const { keeper, admission } = start();
    expect(slotAcquired(keeper, { admission, connection: "c1", sentAt: 0 }, received, now)).toBe(meaning);
    expect(keeper.releases.waiting.map(({ pod }) => pod)).toEqual(["a", "b"].slice(0, releases));
    expect(keeper.contact.away).toBe(received.outcome === UNAVAILABLE);
  });

  it("that reports lost state holds new connections back until every process has renewed its own", () => {
    const { keeper, admission } = start();
    slotAcquired(keeper, { admission, connection: "c1", sentAt: 0 }, reply(ANSWERED, "FORGOTTEN", "2"), 1);
    expect(keeper.recoverNow).toBe(true);
    keeper.contact.recoveryNeeded = false;
    const later = newSlotAdmission("chat", ["a"], 2_900, 1_000);
    expect(nextAdmissionStep(keeper, later, 2_900)).toBe(WAIT);
    expect(admissionWaitMs(keeper, later, 2_900)).toBe(101);
    expect(nextAdmissionStep(keeper, later, 3_001)).toBe(ACQUIRE);
  });
});

describe("without the store", () => {
  const limits = { maxPerPod: 7, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1 };
  function admitted(onStoreFailure: string, own = {}, shared = { liveNodes: 3, workers: 1 }): number {
    const counters = newSlotCounters({});
    const applied = { ...limits, ...own, onStoreFailure };
    const asked = { counters, limits: applied, route: "/", app: "chat", pods: ["a", "b"] };
    let count = 0;
    for (let i = 0; i < 50; i++) if (placeWithoutStore({ ...asked, ...shared }, i) !== undefined) count++;
    expect(counters.add(podCountKey("a"), 0) + counters.add(podCountKey("b"), 0)).toBe(count);
    return count;
  }

  it("open admits all, local its share rounded down, closed nothing", () => {
    const narrow = { maxTotal: 5, maxPerApp: 2, ratePerSecond: 1 };
    expect([admitted("open"), admitted("open", narrow)]).toEqual([50, 50]);
    expect([admitted("local"), admitted("closed")]).toEqual([4, 0]);
    expect(admitted("local", { maxTotal: 5 })).toBe(1);
    expect(admitted("local", { maxPerApp: 6 })).toBe(2);
  });

  it("a client has its limit on each process with open, and its share of it with local, at least one", () => {
    const of = (onStoreFailure: string, maxPerClient: number, client: string | undefined = "10.0.0.1") => {
      const counters = newSlotCounters({});
      const applied = { ...limits, maxPerPod: 1_000, maxPerClient, onStoreFailure };
      const asked = {
        counters,
        limits: applied,
        route: "/",
        app: "chat",
        client,
        pods: ["a"],
        liveNodes: 3,
        workers: 1,
      };
      let count = 0;
      for (let i = 0; i < 50; i++) if (placeWithoutStore(asked, i) !== undefined) count++;
      expect(placeWithoutStore({ ...asked, client: "10.0.0.2" }, 50)).toBe("a");
      return [count, refusalWithoutStore(asked)];
    };
    expect(of("open", 9)).toEqual([9, "CLIENT_LIMIT_EXCEEDED"]);
    expect(of("local", 9)).toEqual([3, "CLIENT_LIMIT_EXCEEDED"]);
    expect(of("local", 2)).toEqual([1, "CLIENT_LIMIT_EXCEEDED"]);
    expect(of("open", 0)).toEqual([50, "store_unavailable"]);
    expect(of("open", 9, "")).toEqual([50, "store_unavailable"]);
  });

  it("open with a maximum admits up to it; workers that count separately get equal parts, rounded up", () => {
    expect(admitted("open", { maxWithoutStore: 15 })).toBe(15);
    expect(admitted("open", { maxWithoutStore: 15 }, { liveNodes: 9, workers: 2 })).toBe(8);
  });

  it("with local, a client has at most its share of the new connections, and later ones again", () => {
    const counters = newSlotCounters({});
    const rated = { maxPerPod: 1_000, ratePerSecond: 1, burst: 4, burstPerClient: 2, onStoreFailure: "local" };
    const asked = { counters, limits: { ...limits, ...rated }, route: "/", app: "chat", pods: ["a"], workers: 1 };
    const from = (client: string, now: number) => placeWithoutStore({ ...asked, client, liveNodes: 2 }, now);
    const many = (client: string, now: number) => Array.from({ length: 9 }, () => from(client, now)).filter(Boolean);
    expect([many("10.0.0.1", 0).length, many("10.0.0.2", 0).length, many("10.0.0.3", 0).length]).toEqual([2, 2, 0]);
    // 4 connections in 4 s, by two processes: in 8 s.
    expect([many("10.0.0.1", 7_999).length, many("10.0.0.1", 8_000).length]).toEqual([0, 2]);
    expect(many("", 8_000).length).toBe(2);
  });

  it("the rate applies in a sliding window, which is longer for a share", () => {
    expect(admitted("local", { maxPerPod: 70, ratePerSecond: 100, burst: 1 })).toBe(2);
  });
});

describe("candidates", () => {
  const isDown = (pod: string) => pod === "b";
  it("begin with another pod each time, without pods that are down or excluded", () => {
    expect([0, 1, 2, 3].map((turn) => candidatePods(["a", "b", "c"], turn, "", isDown)[0])).toEqual([
      "a",
      "c",
      "c",
      "a",
    ]);
    expect(candidatePods(["a", "b", "c"], 0, "c", isDown)).toEqual(["a"]);
  });
  it("are all pods if none is up", () => {
    expect(candidatePods(["b", "a"], 0, "a", isDown)).toEqual(["b"]);
  });
});

describe("releases", () => {
  const ended = (connection: string, proxy = "p1") => ({ proxy, connection, pod: "a", app: "chat" });
  it("stay in the queue until acknowledged, and go out in batches of one proxy, one at a time", () => {
    const queue = newReleaseQueue(1_000);
    for (let i = 0; i < 300; i++) queueRelease(queue, ended(`c${i}`, i % 15 < 13 ? "p1" : "p2"));
    const sizes: [string, number][] = [];
    while (releasesLeft(queue) > 0) {
      const left = releasesLeft(queue);
      const batch = takeReleases(queue)!;
      expect([takeReleases(queue), releasesLeft(queue)]).toEqual([undefined, left]);
      releasesAnswered(queue, false);
      expect(takeReleases(queue)).toEqual(batch);
      sizes.push([batch[0]!.proxy, batch.length]);
      releasesAnswered(queue, true);
    }
    expect(sizes).toEqual([
      ["p1", 250],
      ["p2", 40],
      ["p1", 10],
    ]);
  });

  it("the oldest are dropped when the queue is full, also when a batch failed meanwhile", () => {
    const queue = newReleaseQueue(10);
    for (let i = 0; i < 10; i++) queueRelease(queue, ended(`c${i}`));
    takeReleases(queue);
    queueRelease(queue, ended("c10"));
    releasesAnswered(queue, false);
    expect([queue.waiting.length, queue.waiting[0]?.connection]).toEqual([10, "c1"]);
    takeReleases(queue);
    queueRelease(queue, ended("c11"));
    releasesAnswered(queue, true);
    expect(queue.waiting.map(({ connection }) => connection)).toEqual(["c11"]);
  });
});
