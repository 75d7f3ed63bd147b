/** The slot engine alone: events in, calls out. No host, no timers, no store. */
import { describe, expect, it } from "vitest";
import { renewalMs } from "../../../../src/core/slot-lease.js";
import { ANSWERED, BUSY, UNAVAILABLE } from "../../../../src/engine/slots/contact.js";
import { appendHeld, type HeldSlot } from "../../../../src/engine/slots/held.js";
import {
  endSlot,
  type KeeperOptions,
  newKeeperState,
  RECLAIM,
  RELEASE,
  RENEW,
  requestRecovery,
  retryMs,
  type SlotCall,
  slotBeat,
  storeFailed,
} from "../../../../src/engine/slots/keeper.js";
import { nextSlotCall, slotCallDone } from "../../../../src/engine/slots/recovery.js";

interface Slot extends HeldSlot<Slot> {}

const LEASE_MS = 30_000;
const fine = { outcome: ANSWERED, incarnation: "1", lost: [] as string[] };

function slot(connection: string): Slot {
  return {
    connection,
    pod: "pod-1",
    app: "chat",
    route: "/ws/",
    leased: true,
    inStore: true,
    ended: false,
  };
}

function start(count = 0, options: Partial<KeeperOptions<Slot>> = {}) {
  const events: string[] = [];
  const keeper = newKeeperState<Slot>(
    {
      proxy: "p1",
      batch: 10,
      fixedBeatMs: 0,
      maxRenewals: 2,
      maxReclaims: 2,
      events: {
        storeLost: () => void events.push("store lost"),
        storeFound: () => void events.push("store found"),
        stateLost: () => void events.push("state lost"),
        leasesLost: (leases) => void events.push(`${leases} leases lost`),
        reclaimed: ({ connection }) => void events.push(`reclaimed ${connection}`),
        closed: ({ connection }, code) => void events.push(`closed ${connection} ${code}`),
        recoveryEnded: () => void events.push("recovery ended"),
      },
      ...options,
    },
    LEASE_MS,
    0,
  );
  keeper.contact.incarnation = "1";
  const slots = Array.from({ length: count }, (_, i) => slot(`c${i}`));
  for (const one of slots) appendHeld(keeper.held, one);
  return { keeper, slots, events };
}

/** All calls that the engine wants made now. */
function callsOf(keeper: ReturnType<typeof start>["keeper"]): SlotCall<Slot>[] {
  const calls: SlotCall<Slot>[] = [];
  for (let call = nextSlotCall(keeper); call !== undefined; call = nextSlotCall(keeper)) calls.push(call);
  return calls;
}

const shown = (calls: SlotCall<Slot>[]) => calls.map(({ kind, slots }) => [kind, ...slots.map((s) => s.connection)]);

describe("renewal", () => {
  it.each([1, 7, 95, 1_000])(
    "renews each of %d connections once within the renewal interval, in even batches",
    (count) => {
      const { keeper } = start(count);
      const renewedAt = new Map<string, number>();
      let longestMs = 0;
      let largest = 0;
      for (let now = 0; now < 4 * LEASE_MS; ) {
        const ms = slotBeat(keeper, now);
        for (const call of callsOf(keeper)) {
          largest = Math.max(largest, call.slots.length);
          for (const { connection } of call.slots) {
            longestMs = Math.max(longestMs, now - (renewedAt.get(connection) ?? 0));
            renewedAt.set(connection, now);
          }
          slotCallDone(keeper, call, fine, now);
        }
        now += ms;
      }
      expect(renewedAt.size).toBe(count);
      expect(longestMs).toBeLessThanOrEqual(renewalMs(LEASE_MS));
      expect(largest).toBeLessThanOrEqual(10);
    },
  );

  it("makes all calls of a beat at a fixed interval, no more than the limit at a time", () => {
    const { keeper } = start(450, { fixedBeatMs: 1_000 });
    expect(slotBeat(keeper, 0)).toBe(1_000);
    const calls = callsOf(keeper);
    expect(calls.map(({ slots }) => slots.length)).toEqual([10, 10]);
    slotCallDone(keeper, calls[0]!, fine, 1);
    expect(callsOf(keeper).length).toBe(1);
  });

  it("without connections it makes a call only as a heartbeat, or to learn the incarnation", () => {
    const { keeper } = start();
    slotBeat(keeper, 0);
    expect(callsOf(keeper)).toEqual([]);
    keeper.heartbeatMs = 3_000;
    const beatsAt = (ms: number) => {
      slotBeat(keeper, ms);
      const calls = callsOf(keeper);
      for (const call of calls) slotCallDone(keeper, call, fine, ms);
      return shown(calls);
    };
    const made = [1_000, 2_000, 3_000, 4_000, 5_000].map(beatsAt);
    expect(made).toEqual([[[RENEW]], [], [], [[RENEW]], []]);
    const unknown = start().keeper;
    unknown.contact.incarnation = "0";
    slotBeat(unknown, 0);
    const [call] = callsOf(unknown);
    slotCallDone(unknown, call!, { outcome: "not_configured" }, 1);
    slotBeat(unknown, 1_000);
    expect(callsOf(unknown)).toEqual([]);
  });
});

describe("recovery", () => {
  it("begins when a renewal finds a lost lease, and renews all, releases, reclaims, in this order", () => {
    const { keeper, slots, events } = start(3);
    slotBeat(keeper, 0);
    const [renewal] = callsOf(keeper);
    endSlot(keeper, slots[2]!);
    slotCallDone(keeper, renewal!, { ...fine, lost: ["c0"] }, 1);
    const first = callsOf(keeper);
    expect(shown(first)).toEqual([[RELEASE], [RENEW, "c1", "c0"]]);
    expect(first[0]!.ended.map(({ connection }) => connection)).toEqual(["c2"]);
    slotCallDone(keeper, first[1]!, { ...fine, lost: ["c0", "c1"] }, 2);
    expect(callsOf(keeper)).toEqual([]);
    slotCallDone(keeper, first[0]!, { outcome: ANSWERED }, 2);
    const reclaims = callsOf(keeper);
    expect(shown(reclaims)).toEqual([
      [RECLAIM, "c1"],
      [RECLAIM, "c0"],
    ]);
    slotCallDone(keeper, reclaims[0]!, { ...fine, allowed: true, code: "SUCCESS" }, 3);
    expect([callsOf(keeper).length, keeper.recovery === undefined]).toEqual([0, false]);
    slotCallDone(keeper, reclaims[1]!, { ...fine, allowed: false, code: "LIMIT_EXCEEDED" }, 3);
    expect(callsOf(keeper)).toEqual([]);
    expect(events).toEqual(["2 leases lost", "reclaimed c1", "closed c0 LIMIT_EXCEEDED", "recovery ended"]);
    expect([keeper.held.count, slots[0]!.ended, slots[1]!.leased]).toEqual([1, true, true]);
    expect(keeper.contact.recoveryNeeded).toBe(false);
  });

  it("probes a store that was away with one call, and backs off until it answers", () => {
    const { keeper, events } = start(50);
    storeFailed(keeper, UNAVAILABLE);
    slotBeat(keeper, 1_000);
    const probe = callsOf(keeper);
    expect(probe.length).toBe(1);
    slotCallDone(keeper, probe[0]!, { outcome: UNAVAILABLE }, 1_001);
    expect(callsOf(keeper)).toEqual([]);
    const pauses = Array.from({ length: 8 }, (_, i) => {
      keeper.failures = i + 1;
      return retryMs(keeper, 1);
    });
    expect(pauses).toEqual([50, 100, 200, 400, 800, 1_000, 1_000, 1_000]);
    slotBeat(keeper, 2_000);
    const [again] = callsOf(keeper);
    slotCallDone(keeper, again!, fine, 2_001);
    expect(callsOf(keeper).length).toBe(2);
    expect(events).toEqual(["store lost", "recovery ended", "store found"]);
  });

  it("follows a pause of the process that may have outlived leases, and no shorter one", () => {
    const { keeper } = start(1);
    const beat = slotBeat(keeper, 0);
    slotCallDone(keeper, callsOf(keeper)[0]!, fine, 0);
    slotBeat(keeper, beat + renewalMs(LEASE_MS));
    expect(keeper.contact.recoveryNeeded).toBe(false);
    slotBeat(keeper, keeper.beatAt + renewalMs(LEASE_MS) + 1);
    expect(keeper.contact.recoveryNeeded).toBe(true);
  });

  it("is repeated if the store lost its state, or the process was paused, while it ran", () => {
    for (const interrupt of ["state", "pause"]) {
      const { keeper } = start(20);
      slotBeat(keeper, 0);
      for (const call of callsOf(keeper)) slotCallDone(keeper, call, fine, 0);
      requestRecovery(keeper);
      slotCallDone(keeper, callsOf(keeper)[0]!, fine, 1);
      if (interrupt === "pause") slotBeat(keeper, keeper.beatAt + LEASE_MS);
      const incarnation = interrupt === "state" ? "2" : "1";
      slotCallDone(keeper, callsOf(keeper)[0]!, { ...fine, incarnation }, 2);
      expect(callsOf(keeper)).toEqual([]);
      expect([keeper.recovery, keeper.contact.recoveryNeeded]).toEqual([undefined, true]);
    }
  });

  it("a failed call ends it when the other calls are answered", () => {
    const { keeper, events } = start(40);
    requestRecovery(keeper);
    slotCallDone(keeper, callsOf(keeper)[0]!, fine, 1);
    const [failing, other] = callsOf(keeper);
    slotCallDone(keeper, failing!, { outcome: BUSY }, 2);
    expect([callsOf(keeper), events]).toEqual([[], []]);
    slotCallDone(keeper, other!, { ...fine, lost: ["c0"] }, 2);
    expect([callsOf(keeper), keeper.recovery, keeper.contact.recoveryNeeded]).toEqual([[], undefined, true]);
    expect([events, keeper.contact.away]).toEqual([["recovery ended"], false]);
  });

  it("a store that is lost meanwhile ends it, even if it waits for a release only", () => {
    const { keeper, slots, events } = start(2);
    requestRecovery(keeper);
    const [renewal] = callsOf(keeper);
    endSlot(keeper, slots[0]!);
    const [release] = callsOf(keeper);
    slotCallDone(keeper, renewal!, fine, 1);
    slotCallDone(keeper, release!, { outcome: UNAVAILABLE }, 2);
    expect([callsOf(keeper), events]).toEqual([[], ["store lost", "recovery ended"]]);
    slotBeat(keeper, 1_000);
    const [probe] = callsOf(keeper);
    slotCallDone(keeper, probe!, fine, 1_001);
    const again = callsOf(keeper);
    expect([shown(again), again[0]!.ended.length]).toEqual([[[RELEASE]], 1]);
    slotCallDone(keeper, again[0]!, { outcome: ANSWERED }, 1_002);
    expect([callsOf(keeper), keeper.recovery, keeper.contact.recoveryNeeded]).toEqual([[], undefined, false]);
  });
});

describe("releases", () => {
  it("that fail are repeated after the next beat, and the service's missing configuration ends them", () => {
    const { keeper, slots } = start(2);
    for (const one of slots) endSlot(keeper, one);
    const [first] = callsOf(keeper);
    slotCallDone(keeper, first!, { outcome: BUSY }, 1);
    expect(callsOf(keeper)).toEqual([]);
    slotBeat(keeper, 1_000);
    const [second] = callsOf(keeper);
    expect([second!.ended, keeper.contact.recoveryNeeded]).toEqual([first!.ended, false]);
    slotCallDone(keeper, second!, { outcome: "not_configured" }, 1_001);
    slotBeat(keeper, 2_000);
    expect(callsOf(keeper)).toEqual([]);
  });
});
